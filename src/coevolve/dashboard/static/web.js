/* The dashboard in a browser: listens for changes, keeps what was unfolded, and answers keys. */
(function () {
  "use strict";
  var source = null, heard = "", busy = false, pending = false;
  var root = function () { return document.getElementById("live"); };

  /* Which parts are unfolded, by their place and their words. */
  function parts() {
    var seen = {};
    return Array.prototype.map.call(document.querySelectorAll("#main details"), function (part) {
      var words = part.querySelector("summary").textContent.replace(/[\d.,%[\]]+/g, "");
      seen[words] = (seen[words] || 0) + 1;
      return [words + "#" + seen[words], part];
    });
  }

  function refresh() {
    if (busy || document.hidden) { pending = true; return; }
    var writing = document.activeElement;
    if (writing && /^(INPUT|SELECT|TEXTAREA)$/.test(writing.tagName)) { pending = true; setTimeout(retry, 2000); return; }
    busy = true;
    pending = false;
    var open = {};
    parts().forEach(function (pair) { open[pair[0]] = pair[1].open; });
    htmx.ajax("GET", location.pathname + location.search, { target: "#live", select: "#live", swap: "outerHTML" })
      .then(function () {
        parts().forEach(function (pair) { if (pair[0] in open) pair[1].open = open[pair[0]]; });
        document.documentElement.dataset.refreshed = String(Number(document.documentElement.dataset.refreshed || 0) + 1);
      })
      .catch(function () {})
      .then(function () { setTimeout(function () { busy = false; retry(); }, 1500); });
  }
  function retry() { if (pending) refresh(); }

  function listen() {
    var place = root() ? root().dataset.live || "" : "";
    if (place !== heard && source) { source.close(); source = null; }
    heard = place;
    if (place && !source) {
      source = new EventSource(place);
      source.addEventListener("hello", function () { sign(true); });
      source.addEventListener("changed", refresh);
      source.onerror = function () { sign(false); };
    } else if (source) sign(source.readyState === 1);
  }
  function sign(on) {
    var shown = document.querySelector(".listening");
    if (shown) shown.hidden = !on;
    document.documentElement.dataset.listening = String(on);
  }

  /* The page as JSON has the same filters. */
  function twin() {
    var link = document.querySelector("[data-json]"), query = new URLSearchParams(location.search);
    query.set("format", "json");
    if (link) link.href = location.pathname + "?" + query.toString();
  }

  /* On a narrow screen the tab of this page may be out of sight. */
  function tab() {
    var here = document.querySelector(".tabs [aria-current]");
    if (here) here.parentNode.scrollLeft = here.offsetLeft - here.parentNode.offsetLeft - 40;
  }

  function settled() { window.coevolveShow(); listen(); twin(); tab(); }

  document.addEventListener("htmx:afterSettle", settled);
  document.addEventListener("visibilitychange", retry);
  document.addEventListener("htmx:configRequest", function (event) {
    var given = event.detail.parameters;
    Object.keys(given).forEach(function (name) { if (given[name] === "") delete given[name]; });
  });
  document.addEventListener("htmx:beforeSwap", function (event) {
    if (event.detail.xhr.status >= 400) event.detail.shouldSwap = true; /* errors are pages, too */
  });
  document.addEventListener("submit", function (event) {
    var question = event.submitter && event.submitter.dataset.sure;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  function rows() {
    return Array.prototype.slice.call(document.querySelectorAll("#main table.list tbody th a, #main table.matrix tbody th a"));
  }
  function step(by) {
    var links = rows(), at = links.indexOf(document.activeElement);
    var next = links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  }
  function follow(selector, at) {
    var link = document.querySelectorAll(selector)[at || 0];
    if (link) link.click();
  }
  var keys = {
    r: function () { follow(".bar nav a", 0); }, c: function () { follow(".bar nav a", 1); }, s: function () { follow(".bar nav a", 2); },
    j: function () { step(1); }, k: function () { step(-1); },
    "[": function () { follow("a[rel=prev]"); }, "]": function () { follow("a[rel=next]"); },
    "/": function () { var field = document.getElementById("search") || document.querySelector(".filters select"); if (field) field.focus(); },
    "?": function () { document.getElementById("keys").showModal(); },
  };
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (document.getElementById("keys").open) return;
    if (/^[1-5]$/.test(event.key)) { follow(".tabs a", Number(event.key) - 1); return; }
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  document.addEventListener("click", function (event) {
    if (event.target.closest("#keys-open")) document.getElementById("keys").showModal();
  });
  listen();
  twin();
  tab();
})();
