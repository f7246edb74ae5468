// A stylesheet that only a part needs, loaded with it: `await style("css/trajectories.css")` at the top of its module.
export function style(name) {
  const id = `style-${name}`;
  if (document.getElementById(id)) return Promise.resolve();
  return new Promise((resolve) => {
    const link = Object.assign(document.createElement("link"), { id, rel: "stylesheet", href: `/assets/${name}`, onload: resolve, onerror: resolve });
    document.head.append(link);
  });
}
