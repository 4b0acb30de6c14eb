/* Of every page: the choice of a theme, buttons that copy. */
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const stored = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
const store = (key, value) => { try { localStorage.setItem(key, value); } catch { /* as it was */ } };

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
const themeButton = byId("theme");
const labelTheme = () => { themeButton.textContent = isDark() ? "Light theme" : "Dark theme"; };
if (["dark", "light"].includes(stored("inquest-theme"))) root.dataset.theme = stored("inquest-theme");
themeButton.hidden = false;
labelTheme();
themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  store("inquest-theme", root.dataset.theme);
  labelTheme();
});
dark.addEventListener("change", labelTheme);

for (const button of document.querySelectorAll(".command > button")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const command = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
