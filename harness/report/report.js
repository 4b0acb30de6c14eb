/* Of a report: links into folded parts, and everything unfolded on paper. */
const unfold = () => {
  const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "ARTICLE") for (const part of target.querySelectorAll(":scope > details:not(.fold)")) part.open = true;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => { for (const details of folded) details.open = false; });
root.dataset.ready = "yes";
