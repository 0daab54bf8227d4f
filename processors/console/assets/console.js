// Writes times in the reader's zone; their titles keep UTC. Shows the value of a slider beside it. Holds a list that grows while the reader
// has paused it, or reads further down in it.
(function () {
  "use strict";

  function two(number) {
    return String(number).padStart(2, "0");
  }

  function writeTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
      const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
      time.textContent = day + " " + clock;
      time.dataset.local = "";
    }
  }

  function showValue(slider) {
    const output = slider.form && slider.form.querySelector('output[for="' + CSS.escape(slider.id) + '"]');
    if (output) output.value = slider.value + (slider.dataset.unit || "");
  }

  // The list that an element asks for, if the reader holds it.
  function held(poller) {
    const list = document.getElementById(poller.dataset.live);
    const pause = document.getElementById("pause");
    return (pause && pause.checked) || (list && list.getBoundingClientRect().top < -100);
  }

  function holdList(event) {
    const poller = event.target;
    if (!poller.matches || !poller.matches("[data-live]")) return;
    const isHeld = held(poller);
    const state = document.getElementById("live-state");
    const text = isHeld ? "Paused: new changes wait." : "New changes appear by themselves.";
    if (state && state.textContent !== text) state.textContent = text;
    if (isHeld) event.preventDefault();
  }

  function shortenLists() {
    for (const list of document.querySelectorAll("[data-most]")) {
      while (list.children.length > Number(list.dataset.most)) list.lastElementChild.remove();
    }
  }

  document.addEventListener("htmx:beforeRequest", holdList);
  document.addEventListener("htmx:oobAfterSwap", () => {
    writeTimes(document);
    shortenLists();
  });
  document.addEventListener("DOMContentLoaded", () => writeTimes(document));
  document.addEventListener("htmx:afterSettle", (event) => writeTimes(event.target));
  document.addEventListener("input", (event) => {
    if (event.target.type === "range") showValue(event.target);
  });
})();
