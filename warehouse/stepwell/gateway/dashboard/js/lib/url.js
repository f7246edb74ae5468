// Where we are: `#/view/part?name=value`. The address is the whole state, so every view and every filter can be linked to.
export function read(address = location.href) {
  const hash = address.includes("#") ? address.slice(address.indexOf("#") + 1) : "";
  const cut = hash.indexOf("?");
  const [view, ...path] = (cut < 0 ? hash : hash.slice(0, cut)).split("/").filter(Boolean).map(decoded);
  return { view: view || "overview", path, params: Object.fromEntries(new URLSearchParams(cut < 0 ? "" : hash.slice(cut))) };
}

// The address of a view: href("trajectories", ["run/7"], {sort: "-reward"}). Nothing is said of what is null, "" or false.
export function href(view, path = [], params = {}) {
  const said = query(params);
  return `#/${[view, ...path].map(encodeURIComponent).join("/")}${said ? `?${said}` : ""}`;
}

export function query(params = {}) {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "" && one !== false) said.append(name, String(one));
    }
  }
  return said.toString();
}

// Go there; `replace` leaves no step in the browser's history (typing in a search box, say).
export function visit(address, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", address);
  else if (location.hash !== address) history.pushState(null, "", address);
  dispatchEvent(new Event("stepwell:visit"));
}

// Call `listener` whenever the address changes, by us or by the reader; the answer ends that.
export function onVisit(listener) {
  const events = ["stepwell:visit", "hashchange", "popstate"];
  for (const name of events) addEventListener(name, listener);
  return () => events.forEach((name) => removeEventListener(name, listener));
}

export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
