// Writes times in the reader's zone; their titles keep UTC. Shows the value of a slider beside it.
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

  document.addEventListener("DOMContentLoaded", () => writeTimes(document));
  document.addEventListener("htmx:afterSettle", (event) => writeTimes(event.target));
  document.addEventListener("input", (event) => {
    if (event.target.type === "range") showValue(event.target);
  });
})();
