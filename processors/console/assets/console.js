// Writes times in the reader's zone, with its offset; their titles keep UTC. Shows the value of a slider beside it. Holds a list that grows while the reader
// has paused it, or reads further down in it. Keeps the focus, and what is opened, in a part that is replaced.
(function () {
  "use strict";

  function two(number) {
    return String(number).padStart(2, "0");
  }

  // The offset of the reader's zone from UTC at a time, such as +05:30.
  function offset(at) {
    const minutes = -at.getTimezoneOffset();
    const size = Math.abs(minutes);
    return (minutes < 0 ? "-" : "+") + two(Math.floor(size / 60)) + ":" + two(size % 60);
  }

  function writeTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
      const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
      time.textContent = day + " " + clock + " " + offset(at);
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

  // What a reader has opened or focused in a part that is replaced: the details that were opened or closed, and the focused element with its
  // place among the links and fields.
  const kept = new Map();
  const focusable = "a, button, input, select, textarea, summary, [tabindex]";

  function keep(event) {
    const part = event.detail.target;
    if (!part || !event.detail.shouldSwap) return;
    const details = new Map();
    for (const each of part.querySelectorAll("details[id]")) details.set(each.id, each.open);
    const all = Array.from(part.querySelectorAll(focusable));
    const place = all.indexOf(document.activeElement);
    kept.set(part, { details, place, focused: all[place] });
  }

  function restore() {
    for (const [old, { details, place, focused }] of kept) {
      const part = old.isConnected ? old : document.getElementById(old.id);
      if (!part) continue;
      for (const each of part.querySelectorAll("details[id]")) {
        if (details.has(each.id)) each.open = details.get(each.id);
      }
      if (!focused || focused.isConnected) continue;
      const all = Array.from(part.querySelectorAll(focusable));
      const same = focused.href && all.find((each) => each.href === focused.href);
      const found = same || (all[place] && all[place].tagName === focused.tagName ? all[place] : undefined);
      if (found) found.focus({ preventScroll: true });
    }
    kept.clear();
  }

  document.addEventListener("htmx:beforeRequest", holdList);
  document.addEventListener("htmx:beforeSwap", keep);
  document.addEventListener("htmx:oobBeforeSwap", keep);
  document.addEventListener("htmx:afterSwap", restore);
  document.addEventListener("htmx:oobAfterSwap", () => {
    writeTimes(document);
    shortenLists();
  });
  // The address of htmx. It looks at every element when it starts, and the parts of a page that are loaded later need the server: both would delay the first
  // paint. A page in the background is not painted. htmx starts by itself only in a document that is complete.
  const htmxAddress = document.currentScript.dataset.htmx;

  function startAfterPaint() {
    const isPainted = new Promise((painted) => {
      setTimeout(painted, 1000);
      new PerformanceObserver(painted).observe({ type: "paint", buffered: true });
    });
    const isComplete = new Promise((complete) => addEventListener("load", complete));
    Promise.all([isPainted, isComplete]).then(() => {
      const script = document.createElement("script");
      script.src = htmxAddress;
      script.addEventListener("load", () => htmx.trigger(document.body, "painted"));
      document.head.append(script);
    });
  }

  startAfterPaint();
  document.addEventListener("DOMContentLoaded", () => writeTimes(document));
  document.addEventListener("htmx:afterSettle", (event) => writeTimes(event.target));
  document.addEventListener("input", (event) => {
    if (event.target.type === "range") showValue(event.target);
  });
})();
