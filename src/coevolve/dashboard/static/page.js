/* Draws the training curves, and lets films be paused and parts be unfolded. Loads nothing.
   `coevolveShow` does it again where a page was replaced. */
(function () {
  "use strict";
  var NONE = { again: false, units: {}, curves: [] };
  var LINES = ["blue", "orange", "violet", "green", "soft", "red"];
  var data = NONE, steps = [], plots = [], shown = "", around = 2;

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function written(unit, value) {
    if (value === null || value === undefined) return "–";
    if (unit === "percent") return (100 * value).toFixed(1) + " %";
    if (unit === "rate") return Math.round(value).toLocaleString("en");
    return value.toPrecision(3);
  }

  /* The version that is trained at a step, where they are laid end to end. */
  function versionAt(step) {
    var found = null;
    data.curves.forEach(function (curve) { if (step >= curve.steps[0]) found = curve.name; });
    return found;
  }

  /* The mean of the points around each. */
  function smooth(values) {
    return values.map(function (_, at) {
      var sum = 0, n = 0;
      for (var i = Math.max(0, at - around); i <= Math.min(values.length - 1, at + around); i++) {
        if (values[i] !== null) { sum += values[i]; n++; }
      }
      return n ? sum / n : null;
    });
  }

  function joined(lists) { return Array.prototype.concat.apply([], lists); }

  function padded(values) { return steps.map(function (_, at) { return at < values.length ? values[at] : null; }); }

  /* The lines of a panel, thin and thick: one of all versions end to end, or one for each. */
  function lines(key) {
    var found = data.curves.map(function (curve) { return [curve.values[key], smooth(curve.values[key])]; });
    if (data.again) return found.map(function (pair) { return pair.map(padded); });
    return [[joined(found.map(function (pair) { return pair[0]; })), joined(found.map(function (pair) { return pair[1]; }))]];
  }

  function boundaries(plot) {
    var ctx = plot.ctx, scale = window.devicePixelRatio || 1;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("soft");
    ctx.lineWidth = scale;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.font = 11 * scale + "px system-ui, sans-serif";
    ctx.setLineDash([4 * scale, 4 * scale]);
    var room = 72 * scale, short = 22 * scale, free = -Infinity, end = plot.bbox.left + plot.bbox.width;
    (data.again ? [] : data.curves).forEach(function (curve, index) {
      var x = Math.round(plot.valToPos(curve.steps[0] - 0.5, "x", true));
      var last = plot.valToPos(curve.steps[curve.steps.length - 1] + 0.5, "x", true);
      if (last < plot.bbox.left || x > end) return; /* out of sight */
      if (index && x > plot.bbox.left) {
        ctx.beginPath();
        ctx.moveTo(x, plot.bbox.top);
        ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
        ctx.stroke();
      }
      var at = Math.max(x, plot.bbox.left), next = Math.min(last, end) - at;
      if (at < free || next < short) return; /* where there are many versions, not each has its name */
      free = at + Math.min(room, next);
      ctx.fillText(next < room ? curve.version : curve.name, at + 4 * scale, plot.bbox.top - 4 * scale);
    });
    ctx.restore();
  }

  function draw(place) {
    var key = place.dataset.key, unit = data.units[key], drawn = lines(key);
    var readout = document.getElementById("readout-" + key);
    var axis = {
      stroke: function () { return colour("soft"); },
      grid: { stroke: function () { return colour("line"); }, width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    /* Values that no line reaches: those of a version with a single step. */
    function alone(plot, at) {
      var values = plot.data[at];
      function there(step) { return values[step] !== null && values[step] !== undefined; }
      return values.map(function (_, step) { return step; }).filter(function (step) {
        return there(step) && !there(step - 1) && !there(step + 1);
      });
    }
    var options = {
      width: place.clientWidth,
      height: 160,
      padding: [18, 8, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "steps" }, drag: { x: true, y: false }, points: { size: 6 } },
      scales: {
        x: { time: false, range: function (_, low, high) {
          var all = low <= steps[0] && high >= steps[steps.length - 1];
          return all ? [Math.min(low, 1) - 0.5, high + 0.5] : [low, high];
        } },
        y: { range: function (_, low, high) {
          if (low === null) return [0, 1];
          var flat = high - low <= 1e-9 * Math.abs(high); /* equal but for the last digits */
          var room = 0.08 * (flat ? Math.abs(high) || 1 : high - low);
          var least = low - room < 0 && low >= 0 ? 0 : low - room;
          return [least, unit === "percent" ? Math.min(1.02, high + room) : high + room];
        } },
      },
      axes: [
        Object.assign({ size: 24, gap: 2, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6] }, axis),
        Object.assign({ size: 48, gap: 4, values: function (_, ticks) {
          var step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
          return ticks.map(function (tick) {
            if (unit === "percent") return (100 * tick).toFixed(Math.abs(step * 100 - Math.round(step * 100)) > 0.001 ? 1 : 0) + " %";
            if (tick && Math.abs(tick) < 0.001) return tick.toExponential(step < Math.abs(tick) ? 1 : 0);
            return tick.toLocaleString("en", { maximumFractionDigits: 4 });
          });
        } }, axis),
      ],
      series: joined([[{}]].concat(drawn.map(function (_, at) {
        var stroke = function () { return colour(LINES[at % LINES.length]); };
        return [
          { stroke: stroke, width: 1, alpha: 0.4, points: { show: false, filter: alone } },
          { stroke: stroke, width: 2, points: { show: false } },
        ];
      }))),
      hooks: {
        draw: [boundaries],
        setCursor: [function (plot) {
          var at = plot.cursor.idx;
          if (at === null || at === undefined) { readout.textContent = ""; return; }
          readout.textContent = drawn.map(function (pair, index) {
            var which = data.again ? data.curves[index].name : versionAt(steps[at]);
            return which + ": " + written(unit, pair[0][at]);
          }).join(", ") + " at step " + steps[at];
        }],
      },
    };
    plots.push([place, new uPlot(options, [steps].concat(joined(drawn)), place)]);
  }

  /* A box that does not scroll needs no stop of the Tab key. */
  function stops() {
    document.querySelectorAll(".scroll[role=group]").forEach(function (box) {
      var scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      if (scrolls) box.setAttribute("tabindex", "0"); else if (box !== document.activeElement) box.removeAttribute("tabindex");
    });
  }

  function redraw() {
    stops();
    plots.forEach(function (pair) {
      pair[1].setSize({ width: pair[0].clientWidth, height: 160 });
      pair[1].redraw(false, true);
    });
  }

  /* The picture of a panel as a file, on the ground of the page. */
  function keep(button) {
    var drawn = button.closest("figure").querySelector("canvas");
    if (!drawn) return;
    var copy = document.createElement("canvas"), ctx = copy.getContext("2d"), link = document.createElement("a");
    copy.width = drawn.width;
    copy.height = drawn.height;
    ctx.fillStyle = colour("ground");
    ctx.fillRect(0, 0, copy.width, copy.height);
    ctx.drawImage(drawn, 0, 0);
    link.href = copy.toDataURL("image/png");
    link.download = button.dataset.name + ".png";
    link.click();
  }

  function play(film, running) { if (running) film.unpauseAnimations(); else film.pauseAnimations(); }

  /* All films of a group at the same second; one that is shorter waits at its end. */
  function scrub(slider) {
    var films = Array.prototype.slice.call(slider.closest(".pair, .drawn").querySelectorAll(".film svg"));
    var lengths = films.map(function (film) {
      var moving = film.querySelector("[dur]");
      return moving ? parseFloat(moving.getAttribute("dur")) : 0;
    });
    var at = slider.value / 1000 * Math.max.apply(null, lengths);
    films.forEach(function (film, index) {
      film.pauseAnimations();
      film.setCurrentTime(Math.max(0, Math.min(at, lengths[index] - 0.01)));
    });
  }

  function run(pause, running) {
    document.querySelectorAll(".film svg").forEach(function (film) { play(film, running); });
    pause.setAttribute("aria-pressed", String(!running));
    pause.textContent = running ? "Pause the animations" : "Play the animations";
  }

  function open(unfold, all) {
    document.querySelectorAll("details").forEach(function (part) { part.open = all; });
    unfold.setAttribute("aria-pressed", String(all));
    unfold.textContent = all ? "Fold all" : "Unfold all";
  }

  /* The steps that are looked at closely, if not all are. */
  function closeUp() {
    var x = plots.length ? plots[0][1].scales.x : {};
    return x.min > steps[0] || x.max < steps[steps.length - 1] ? { min: x.min, max: x.max } : null;
  }

  /* The same steps in all panels, by keys: closer, farther, along, and all again. */
  var KEYS = { "+": [0.5, 0], "=": [0.5, 0], "-": [2, 0], ArrowLeft: [1, -0.25], ArrowRight: [1, 0.25] };
  function zoom(key) {
    var first = steps[0], last = steps[steps.length - 1], x = closeUp() || { min: first, max: last };
    if (key === "0") return all({ min: first, max: last });
    var width = Math.min(last - first, Math.max(1, (x.max - x.min) * KEYS[key][0]));
    var low = (x.min + x.max - width) / 2 + width * KEYS[key][1];
    low = Math.max(first, Math.min(last - width, low));
    all({ min: low, max: low + width });
  }
  function all(x) { plots.forEach(function (pair) { pair[1].setScale("x", x); }); }

  function show() {
    var written = document.getElementById("chart-data"), text = written ? written.textContent : "", near = closeUp();
    if (text === shown && plots.every(function (pair) { return pair[0].isConnected; })) return;
    shown = text;
    data = written ? JSON.parse(text) : NONE;
    var every = data.curves.map(function (curve) { return curve.steps; });
    steps = data.again ? every.reduce(function (a, b) { return b.length > a.length ? b : a; }, []) : joined(every);
    plots.forEach(function (pair) { pair[1].destroy(); });
    plots = [];
    if (steps.length) document.querySelectorAll(".chart").forEach(draw);
    if (near) all(near);
    document.documentElement.dataset.charts = String(plots.length);
    stops();
    var pause = document.getElementById("pause");
    if (pause && window.matchMedia("(prefers-reduced-motion: reduce)").matches) run(pause, false);
  }

  document.addEventListener("click", function (event) {
    var button = event.target.closest("button");
    if (!button) return;
    var pressed = button.getAttribute("aria-pressed") === "true";
    if (button.matches(".keep")) keep(button);
    if (button.id === "pause") run(button, pressed);
    if (button.id === "unfold") open(button, !pressed);
  });
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || steps.length < 2 || !event.target.matches(".chart")) return;
    if (event.key !== "0" && !KEYS[event.key]) return;
    event.preventDefault();
    zoom(event.key);
  });
  document.addEventListener("input", function (event) {
    if (event.target.matches(".scrub")) scrub(event.target);
    if (event.target.id === "smoothing") { around = Number(event.target.value); shown = ""; show(); }
  });
  window.addEventListener("resize", redraw);
  document.addEventListener("toggle", function (event) {
    if (event.target.matches("details.more")) redraw(); /* what was folded had no width */
  }, true);
  ["(prefers-color-scheme: dark)", "print"].forEach(function (query) {
    window.matchMedia(query).addEventListener("change", redraw);
  });
  window.addEventListener("beforeprint", function () {
    var unfold = document.getElementById("unfold");
    if (unfold) open(unfold, true);
    else document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });
  window.coevolveShow = show;
  show();
})();
