/* The dashboard in a browser: listens for changes, mends what they change of the page, and answers keys. */
(function () {
  "use strict";
  var source = null, heard = "", busy = false, pending = false;
  var root = function () { return document.getElementById("live"); };

  /* What tells a part from its neighbours: an id, the first link of a row, the words of a fold. */
  function name(part) {
    if (part.nodeType !== 1) return "";
    if (part.id) return "#" + part.id;
    var inner = part.querySelector(part.nodeName === "TR" ? "th a" : ":scope > summary");
    if (part.nodeName === "TR" && inner) return "tr " + inner.getAttribute("href");
    return part.nodeName === "DETAILS" && inner ? "fold " + inner.textContent.replace(/[\d.,%[\]+-]+/g, "") : "";
  }

  /* What the browser has made of a part, and the server does not know of. */
  var OWN = { DETAILS: ["open"], BUTTON: ["aria-pressed"], SPAN: ["hidden"] };
  function attributes(old, made) {
    var own = OWN[old.nodeName] || [];
    Array.prototype.slice.call(old.attributes).forEach(function (one) {
      if (!made.hasAttribute(one.name) && own.indexOf(one.name) < 0) old.removeAttribute(one.name);
    });
    Array.prototype.forEach.call(made.attributes, function (one) {
      if (old.getAttribute(one.name) !== one.value && own.indexOf(one.name) < 0) old.setAttribute(one.name, one.value);
    });
  }

  /* Make a part of the page like what was made anew, and touch nothing that is the same: films play on; focus, scroll, what
     was unfolded and what was typed stay. */
  function mend(old, made) {
    if (old.isEqualNode(made)) return;
    if (old.nodeType !== 1) { old.nodeValue = made.nodeValue; return; }
    attributes(old, made);
    if (!old.matches(".chart, .readout, #pause, #unfold, textarea, [hx-trigger=load], .preview")) children(old, made);
  }
  function children(old, made) {
    var wanted = {}, known = {};
    made.childNodes.forEach(function (part) { wanted[name(part)] = true; });
    Array.prototype.slice.call(old.childNodes).forEach(function (part) {
      var called = name(part);
      if (!called) return;
      if (wanted[called] && !known[called]) known[called] = part;
      else part.remove();
    });
    var at = old.firstChild;
    Array.prototype.slice.call(made.childNodes).forEach(function (part) {
      var called = name(part), same = called ? known[called] : at && !name(at) && at.nodeName === part.nodeName ? at : null;
      if (called) delete known[called];
      if (!same || same.nodeName !== part.nodeName) { old.insertBefore(part, at); return; }
      while (at && at !== same && !name(at)) { at = dropped(at); }
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      mend(same, part);
    });
    while (at) at = dropped(at);
  }
  function dropped(part) { var next = part.nextSibling; part.remove(); return next; }

  function refresh() {
    if (busy || document.hidden) { pending = true; return; }
    var writing = document.activeElement;
    if (writing && /^(INPUT|TEXTAREA)$/.test(writing.tagName) && writing.type !== "range") { pending = true; setTimeout(retry, 2000); return; }
    busy = true;
    pending = false;
    fetch(location.href, { headers: { accept: "text/html" } })
      .then(function (answer) { return answer.text(); })
      .then(function (text) {
        var page = new DOMParser().parseFromString(text, "text/html"), made = page.getElementById("live");
        if (!made) return;
        mend(root(), made);
        document.title = page.title;
        htmx.process(root());
        settled();
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

  /* What is still being worked out is asked for again. */
  function again() { if (document.querySelector("#main .waiting[data-again]")) setTimeout(refresh, 1000); }

  function settled() { window.coevolveShow(); listen(); twin(); again(); }

  document.addEventListener("htmx:afterSettle", function () { settled(); tab(); });
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
    var found = document.querySelectorAll("#main tbody th a");
    return Array.prototype.slice.call(found.length ? found : document.querySelectorAll("#main section a"));
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
    "/": function () {
      var field = document.getElementById("search") || document.querySelector(".filters select");
      if (field) field.focus(); else follow(".tabs a[href$='/rollouts']");
    },
    "?": function () { document.getElementById("keys").showModal(); },
  };
  document.addEventListener("keydown", function (event) {
    if (event.target.id === "search" && (event.key === "Enter" || event.key === "Escape")) {
      event.target.blur(); /* the keys are for the page again */
      if (event.key === "Enter") step(0);
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (document.getElementById("keys").open) return;
    if (/^[1-5]$/.test(event.key)) { follow(".tabs a", Number(event.key) - 1); return; }
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  document.addEventListener("click", function (event) {
    if (event.target.closest("#keys-open")) document.getElementById("keys").showModal();
  });
  settled();
  tab();
})();
