"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 100; // Rollouts that are drawn at once.
  const COLOURS = ["#d1495b", "#2e86ab", "#e6a100", "#6a4c93", "#3a9e6f", "#b0643c"];
  const OTHER = "#8b949e";
  const IS = { own: 1, chain: 2, recovered: 4, late: 8, remote: 16 };
  const [KEY, TRACE, FAILED, START, EVENTS, REMARKS] = [0, 1, 2, 3, 4, 5];
  const [CAUSE, KIND, BOUNDARY, REASON, OPERATION, SERVICE, EXCEPTION, STATUS, FLAGS, AFTER] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

  const at = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");
  const text = (place) => (place < 0 ? "" : data.texts[place]);

  // All that comes from the data gets onto the page here, as text.
  const element = (name, properties = {}, ...children) => {
    const made = document.createElement(name);
    Object.assign(made, properties);
    made.append(...children.filter((child) => child !== null && child !== ""));
    return made;
  };
  const cell = (value) => element("td", { className: "number" }, value === null ? "–" : number(value));
  const head = (...names) =>
    element("thead", {}, element("tr", {}, ...names.map(([name, isNumber]) =>
      element("th", { scope: "col", className: isNumber ? "number" : "" }, name))));
  const time = (ms) => {
    const date = new Date(ms);
    if (!(ms > 0) || Number.isNaN(date.getTime())) return "";
    return date.toISOString().replace("T", " ").replace(/\.?0*Z$/, "") + " UTC";
  };

  // --- Numbers over everything. ---------------------------------------------------------------------------------------

  const totals = () => {
    const all = data.totals;
    at("title").textContent = data.title;
    at("subtitle").textContent = `${number(all.spans)} spans read, page made ${data.made} by gym-failures`;
    const rollouts = data.unit === "trace" ? "traces" : "rollouts";
    for (const [name, value, className] of [
      [`${rollouts} failed`, all.failed, "bad"],
      [`${rollouts} recovered`, all.recovered, ""],
      ["failures", all.failures, ""],
      ["root causes", all.roots, ""],
      ["kinds", new Set(data.cells.map(([kind]) => kind)).size, ""],
    ]) {
      at("totals").append(element("div", { className }, element("dt", {}, name), element("dd", {}, number(value))));
    }
    const notes = [
      [all.remote_only, "failures are known from replies only: their own process stored nothing"],
      [all.missing_causes, "causes are named, and no span tells of them"],
      [all.dropped_events, "events of spans were dropped before they were stored"],
      [all.skipped, "places could not be read"],
      [data.left_out, "rollouts are not listed below, because the page would be too large; all numbers count them"],
    ].filter(([count]) => count > 0).map(([count, what]) => `${number(count)} ${what}.`);
    notes.push(`Reasons are cut to ${data.reason_length} characters.`);
    at("notes").textContent = notes.join(" ");
  };

  const sum = (rows, place) => rows.reduce((total, row) => total + row[place], 0);
  const names = (place) => {
    const counts = new Map();
    for (const row of data.cells) counts.set(row[place], (counts.get(row[place]) || 0) + row[2]);
    return [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one) || (one < other ? -1 : 1));
  };
  const kinds = names(0);
  const boundaries = names(1);

  const cells = () => {
    const most = Math.max(...data.cells.map((row) => row[2]), 1);
    const found = new Map(data.cells.map((row) => [`${row[0]}\n${row[1]}`, row]));
    const body = element("tbody");
    for (const kind of kinds) {
      const line = element("tr", {}, element("th", { scope: "row" }, kind));
      for (const boundary of boundaries) {
        const row = found.get(`${kind}\n${boundary}`);
        if (!row) {
          line.append(element("td"));
          continue;
        }
        if (kind === data.other_kinds) {
          line.append(cell(row[2]));
          continue;
        }
        const choose = element("button", {
          type: "button",
          title: `${number(row[2])} failures, ${number(row[3])} of them root causes`,
          ariaPressed: "false",
          onclick: () => choose_cell(kind, boundary),
        }, number(row[2]));
        choose.dataset.kind = kind;
        choose.dataset.boundary = boundary;
        // Few next to many are still to be seen.
        choose.style.background = `rgb(var(--bad-rgb) / ${(0.08 + 0.5 * Math.sqrt(row[2] / most)).toFixed(3)})`;
        line.append(element("td", { className: "cell" }, choose));
      }
      const own = data.cells.filter((row) => row[0] === kind);
      line.append(cell(sum(own, 2)), cell(sum(own, 3)));
      body.append(line);
    }
    at("cells").append(
      head(["kind"], ...boundaries.map((name) => [name, true]), ["all", true], ["root causes", true]), body);
  };

  const times = () => {
    if (!data.times) {
      at("times-section").hidden = true;
      return;
    }
    const { start, width, kinds: series } = data.times;
    const shown = series.slice(0, COLOURS.length).map(([kind, counts], place) => [kind, counts, COLOURS[place]]);
    const rest = series.slice(COLOURS.length);
    if (rest.length) shown.push([`${rest.length} other kinds`, rest[0][1].map((_, i) => rest.reduce((all, one) => all + one[1][i], 0)), OTHER]);
    const columns = shown[0][1].length;
    const highest = Math.max(...shown[0][1].map((_, i) => shown.reduce((all, one) => all + one[1][i], 0)), 1);
    const [wide, high, left, below] = [1000, 180, 44, 20];
    const svg = (name, attributes, ...children) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      made.append(...children);
      return made;
    };
    const chart = svg("svg", { class: "chart", viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `Failures over time, at most ${number(highest)} in ${length_of(width)}` });
    const step = (wide - left) / columns;
    for (let column = 0; column < columns; column += 1) {
      let base = high - below;
      for (const [kind, counts, colour] of shown) {
        if (!counts[column]) continue;
        const tall = Math.max((counts[column] / highest) * (high - below - 12), 1);
        base -= tall;
        chart.append(svg("rect", { x: left + column * step + 0.5, y: base, width: Math.max(step - 1, 1), height: tall, fill: colour },
          svg("title", {}, `${time(start + column * width)}: ${number(counts[column])} ${kind}`)));
      }
    }
    chart.append(svg("line", { x1: left, x2: wide, y1: high - below, y2: high - below }));
    at("times").append(
      element("p", { className: "quiet" }, `${time(start)} to ${time(start + columns * width)}, a column is ${length_of(width)}, the highest has ${number(highest)} failures.`),
      chart,
      element("ul", { className: "legend" }, ...shown.map(([kind, counts, colour]) => {
        const mark = element("i");
        mark.style.background = colour;
        return element("li", {}, mark, `${kind} (${number(counts.reduce((all, one) => all + one, 0))})`);
      })));
  };
  const length_of = (ms) => {
    for (const [unit, size] of [["day", 86400000], ["hour", 3600000], ["minute", 60000], ["second", 1000]]) {
      if (ms % size === 0) return `${number(ms / size)} ${unit}${ms === size ? "" : "s"}`;
    }
    return `${ms} ms`;
  };

  const chains = () => {
    const body = element("tbody");
    for (const [links, more, count] of data.chains) {
      const line = element("td");
      links.forEach(([kind, boundary], place) => {
        line.append(place ? " → " : "", element("span", { className: place ? "" : "kind" }, `${kind} at ${boundary}`));
      });
      if (more) line.append(` → ${number(more)} more`);
      const see = element("button", { type: "button", onclick: () => choose_cell(...links[0]) }, "Show");
      see.setAttribute("aria-label", `Show rollouts that began with ${links[0].join(" at ")}`);
      body.append(element("tr", {}, cell(count), line, element("td", { className: "no-print" }, see)));
    }
    at("chains").append(head([data.unit === "trace" ? "traces" : "rollouts", true], ["root cause → … → own failure"], [""]), body);
  };

  const servers = () => {
    const body = element("tbody");
    for (const [name, failures, roots, requests, failed] of data.servers) {
      const share = element("td");
      if (requests) {
        const bar = element("span", { className: "bar" });
        if (failed) share.append(bar);
        bar.style.width = `${((failed / requests) * 8).toFixed(2)}rem`;
        share.append(`${((failed / requests) * 100).toFixed(failed && failed / requests < 0.1 ? 1 : 0)} %`);
      } else share.append("–");
      body.append(element("tr", {}, element("th", { scope: "row" }, name === null ? "known from replies only" : name),
        cell(failures), cell(roots), cell(requests), cell(failed), share));
    }
    at("servers").append(head(["service"], ["failures", true], ["root causes", true], ["requests", true], ["failed requests", true], ["failing share"]), body);
  };

  // --- Rollouts, as many as are asked for. ----------------------------------------------------------------------------

  const search_texts = new Array(data.rollouts.length);
  const search_text = (place) => {
    if (search_texts[place] === undefined) {
      const rollout = data.rollouts[place];
      const words = [text(rollout[KEY]), rollout[TRACE]];
      for (const event of rollout[EVENTS]) {
        for (const field of [KIND, BOUNDARY, REASON, OPERATION, SERVICE, EXCEPTION]) words.push(text(event[field]));
        if (event[STATUS]) words.push(String(event[STATUS]));
      }
      search_texts[place] = words.join("\n").toLowerCase();
    }
    return search_texts[place];
  };

  const fits = (place) => {
    const rollout = data.rollouts[place];
    const outcome = at("outcome").value;
    if (outcome && (outcome === "failed") !== Boolean(rollout[FAILED])) return false;
    const kind = at("kind").value;
    const boundary = at("boundary").value;
    const is_asked_for = (of_kind, at_boundary) =>
      (!kind || text(of_kind) === kind) && (!boundary || text(at_boundary) === boundary);
    if ((kind || boundary) && !rollout[EVENTS].some((event) => is_asked_for(event[KIND], event[BOUNDARY]))
      && !rollout[REMARKS][4].some((pair) => is_asked_for(...pair))) return false;
    const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    return words.every((word) => search_text(place).includes(word));
  };

  const root_of = (rollout) => rollout[EVENTS].find((event) => event[FLAGS] & IS.chain && event[CAUSE] < 0);

  const failure = (rollout, event) => {
    const facts = [
      event[STATUS] ? `HTTP ${event[STATUS]}` : "",
      text(event[EXCEPTION]),
      text(event[OPERATION]) || text(event[SERVICE]),
      event[AFTER] !== null ? `${event[AFTER] >= 0 ? "+" : ""}${(event[AFTER] / 1000).toFixed(3)} s` : "",
      event[FLAGS] & IS.own ? "own failure" : "",
      event[FLAGS] & IS.recovered ? "recovered" : "",
      event[FLAGS] & IS.late ? "after the reply" : "",
      event[FLAGS] & IS.remote ? "known from a reply only" : "",
    ].filter(Boolean).join(" · ");
    return element("div", { className: event[CAUSE] < 0 && event[FLAGS] & IS.chain ? "failure root" : "failure" },
      element("span", { className: "kind" }, text(event[KIND])), ` at ${text(event[BOUNDARY])} `,
      element("span", { className: "facts" }, facts),
      text(event[REASON]) ? element("span", { className: "reason" }, text(event[REASON])) : "");
  };

  const tree = (rollout) => {
    const lists = new Map();
    const list_of = (cause) => {
      if (!lists.has(cause)) lists.set(cause, element("ul", { className: "tree" }));
      return lists.get(cause);
    };
    // Below its cause stands what it led to; one list at a time, because chains may be longer than calls may nest.
    rollout[EVENTS].forEach((event, place) => {
      const item = element("li", { className: event[FLAGS] & IS.chain ? "" : "beside" }, failure(rollout, event));
      list_of(event[CAUSE]).append(item);
      item.place = place;
    });
    for (const list of lists.values()) for (const item of list.children) if (lists.has(item.place)) item.append(lists.get(item.place));
    return list_of(-1);
  };

  const fill = (details, rollout) => {
    if (details.childElementCount > 1) return;
    const [hidden, missing, dropped, unreadable] = rollout[REMARKS];
    const remarks = [
      [hidden, "more failures are not listed here"], [missing, "causes are named, and no span tells of them"],
      [dropped, "events of spans were dropped before they were stored"], [unreadable, "failures cannot be read"],
    ].filter(([count]) => count).map(([count, what]) => `${number(count)} ${what}.`).join(" ");
    const trace = data.jaeger
      ? element("a", { href: `${data.jaeger}/trace/${encodeURIComponent(rollout[TRACE])}`, rel: "noreferrer" }, `trace ${rollout[TRACE]}`)
      : `trace ${rollout[TRACE]}`;
    details.append(tree(rollout), element("p", { className: "quiet" }, trace, rollout[START] ? ` · ${time(rollout[START])}` : "", remarks ? ` · ${remarks}` : ""));
  };

  const row = (place) => {
    const rollout = data.rollouts[place];
    const root = root_of(rollout);
    const what = rollout[FAILED]
      ? (root ? `${text(root[KIND])} at ${text(root[BOUNDARY])}` : "failed, but how is not known")
      : `recovered from ${number(rollout[EVENTS].length + rollout[REMARKS][0])}`;
    const details = element("details", { className: rollout[FAILED] ? "failed" : "recovered" },
      element("summary", {}, element("span", { className: "mark" }, rollout[FAILED] ? "✗" : "✓"),
        element("span", { className: "tag" }, text(rollout[KEY]) || rollout[TRACE]), `  ${what}`));
    details.addEventListener("toggle", () => details.open && fill(details, rollout));
    details.fill = () => fill(details, rollout);
    return details;
  };

  let matching = [];
  let drawn = 0;
  const draw = (count) => {
    const first = drawn;
    drawn = Math.min(drawn + count, matching.length);
    at("rollouts").append(...matching.slice(first, drawn).map(row));
    at("more").hidden = drawn >= matching.length;
    at("found").textContent = matching.length
      ? `${number(matching.length)} of ${number(data.rollouts.length)} listed, ${number(drawn)} shown`
      : "Nothing fits.";
  };
  const refresh = () => {
    at("rollouts").replaceChildren();
    drawn = 0;
    matching = [];
    for (let place = 0; place < data.rollouts.length; place += 1) if (fits(place)) matching.push(place);
    for (const choose of document.querySelectorAll("td.cell button")) {
      const isChosen = choose.dataset.kind === at("kind").value && choose.dataset.boundary === at("boundary").value;
      choose.ariaPressed = String(isChosen);
    }
    draw(PAGE);
  };
  const choose_cell = (kind, boundary) => {
    at("filter").reset();
    at("kind").value = kind;
    at("boundary").value = boundary;
    at("outcome").value = "";
    refresh();
    at("rollouts-title").scrollIntoView();
    at("search").focus({ preventScroll: true });
  };

  const options = (id, values) => {
    at(id).append(element("option", { value: "" }, "any"), ...values.map((value) => element("option", { value }, value)));
  };

  totals();
  cells();
  times();
  chains();
  servers();
  options("kind", kinds.filter((kind) => kind !== data.other_kinds));
  options("boundary", boundaries);
  let waiting = 0;
  at("filter").addEventListener("submit", (event) => event.preventDefault());
  at("filter").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 120);
  });
  at("filter").addEventListener("reset", () => setTimeout(refresh));
  at("more").addEventListener("click", () => draw(PAGE));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      at("search").focus();
    }
  });
  // Paper cannot be opened: what is drawn is printed with its trees.
  addEventListener("beforeprint", () => {
    for (const details of at("rollouts").children) {
      details.fill();
      details.open = true;
    }
  });
  refresh();
})();
