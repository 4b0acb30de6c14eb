/* Of the index: filters of the table of runs. */
const filters = byId("filters");
if (filters) {
  const rows = [...document.querySelectorAll("#run-rows > tr")];
  const selects = [...filters.querySelectorAll("select")];
  const apply = () => {
    const wanted = selects.filter((select) => select.value);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !wanted.every((select) => row.dataset[select.name] === select.value);
      if (!row.hidden) shown += 1;
    }
    byId("shown").textContent = `${shown} of ${rows.length} runs`;
    byId("no-runs").hidden = shown > 0;
    const state = new URLSearchParams(wanted.map((select) => [select.name, select.value]));
    try { history.replaceState(null, "", wanted.length ? `#runs?${state}` : "#runs"); } catch { /* file:// */ }
  };
  const [, query] = location.hash.split("?");
  for (const [name, value] of new URLSearchParams(query ?? "")) {
    const select = selects.find((one) => one.name === name);
    if (select && [...select.options].some((option) => option.value === value)) select.value = value;
  }
  for (const select of selects) select.addEventListener("change", apply);
  byId("all").addEventListener("click", () => {
    for (const select of selects) select.value = "";
    apply();
  });
  filters.hidden = false;
  if (query) { apply(); byId("runs").scrollIntoView(); } else byId("shown").textContent = `${rows.length} of ${rows.length} runs`;
}
root.dataset.ready = "yes";
