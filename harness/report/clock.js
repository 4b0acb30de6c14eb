/* One time base for the whole page: seconds of the run, or the wall clock in UTC where it is on record; with
   the day where the run has more than one. */
const started = Number(root.dataset.start ?? Number.NaN);
const onClock = () => root.dataset.clock === "wall";
const timeText = (seconds, digits, unit = " s") => {
  if (!onClock()) return `${seconds.toFixed(digits)}${unit}`;
  const parts = 10 ** Math.min(digits, 6);
  const all = Math.round((started / 1e3 + seconds) * parts);
  const time = new Date(Math.floor(all / parts) * 1e3).toISOString()
    .slice("dated" in root.dataset ? 5 : 11, 19).replace("T", " ");
  return digits ? `${time}.${String(all % parts).padStart(Math.min(digits, 6), "0")}` : time;
};
const followClock = [];
const setClock = (wall) => {
  root.dataset.clock = wall ? "wall" : "run";
  byId("clock").textContent = wall ? "Run seconds" : "Wall clock";
  for (const time of document.querySelectorAll("time[data-s]")) {
    time.textContent = timeText(Number(time.dataset.s), Number(time.dataset.digits), "cell" in time.dataset ? "" : " s");
  }
  for (const follow of followClock) follow();
};
if (!Number.isNaN(started)) {
  byId("clock").hidden = false;
  byId("clock").addEventListener("click", () => {
    store("inquest-clock", onClock() ? "run" : "wall");
    setClock(!onClock());
  });
  if (stored("inquest-clock") === "wall") setClock(true);
}
