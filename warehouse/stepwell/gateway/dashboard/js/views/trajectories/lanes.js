// A trajectory as rows with lines beside them, as histories of code are drawn: each conversation by itself, a step below its parent,
// what goes on in one line, what branches off in another. Nothing is drawn here.

// Nodes as the gateway gives them -> {rows, chains, lanes, conversations}. A row is {key, head: conversation} or {key, node, lane, place}.
// A chain is a line: {lane, start, first, end, from}: rows, `from` the lane that it leaves at `start` (null: it begins there).
export function laid(nodes, conversations) {
  const byId = new Map(nodes.map((node) => [node.step_id, node]));
  const within = groupBy(nodes, (node) => node.root_id);
  const merged = together(conversations, byId);
  const attempts = groupBy(nodes.filter((node) => node.call_id !== null), (node) => node.call_id);
  const rows = [];
  const chains = [];
  merged.forEach((conversation, number) => {
    const members = ordered(conversation.roots.flatMap((root) => within.get(root) ?? []), byId);
    if (merged.length > 1) rows.push({ key: `head ${conversation.roots[0]}`, head: { ...conversation, number, node: byId.get(conversation.roots.at(-1)) } });
    const at = new Map(members.map((node, index) => [node.step_id, rows.length + index]));
    chains.push(...chainsOf(members, at));
    for (const node of members) rows.push({ key: node.step_id, node, lane: 0, place: placeOf(node, byId, attempts) });
  });
  const lanes = assign(chains);
  for (const chain of chains) for (const row of chain.rows) rows[row].lane = chain.lane;
  return { rows, chains, lanes, conversations: merged };
}

// Attempts of one first call are roots of their own, and of one conversation all the same.
function together(conversations, byId) {
  const groups = groupBy(conversations, ({ root_id: root }) => byId.get(root)?.call_id ?? `root ${root}`);
  return [...groups.values()].map((some) => ({
    roots: some.map((one) => one.root_id),
    steps: some.reduce((sum, one) => sum + one.steps, 0),
    ends: some.flatMap((one) => one.ends),
  }));
}

function groupBy(items, keyOf) {
  const found = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (found.has(key)) found.get(key).push(item);
    else found.set(key, [item]);
  }
  return found;
}

// Parents before children, else as they were committed (a parent may have come late).
function ordered(members, byId) {
  const done = new Set();
  const found = [];
  for (const member of members) {
    const path = [];
    for (let node = member; node && node.root_id === member.root_id && !done.has(node.step_id); node = byId.get(node.parent_id)) {
      done.add(node.step_id);
      path.push(node);
    }
    found.push(...path.reverse());
  }
  return found;
}

// Each line goes on with the child behind which most follows; the others begin lines of their own.
function chainsOf(members, at) {
  const depth = new Map();
  const children = new Map(members.map((node) => [node.step_id, node.children.filter((child) => at.has(child))]));
  const favourite = new Map();
  for (const node of [...members].reverse()) {
    const mine = children.get(node.step_id);
    const best = mine.reduce((one, child) => (one === null || depth.get(child) > depth.get(one) ? child : one), null);
    favourite.set(node.step_id, best);
    depth.set(node.step_id, best === null ? 1 : depth.get(best) + 1);
  }
  const chains = [];
  const begin = (id, parent) => {
    const rows = [];
    for (let one = id; one !== null; one = favourite.get(one)) rows.push(at.get(one));
    chains.push({ start: parent === null ? rows[0] : at.get(parent), first: rows[0], end: rows.at(-1), rows, parent: parent === null ? null : at.get(parent) });
  };
  for (const node of members) {
    if (!at.has(node.parent_id)) begin(node.step_id, null);
    for (const child of children.get(node.step_id)) if (child !== favourite.get(node.step_id)) begin(child, node.step_id);
  }
  return chains;
}

// The leftmost lane in which nothing else is drawn.
function assign(chains) {
  const free = []; // by lane, the last row that is taken
  const laneAt = new Map();
  for (const chain of chains.sort((a, b) => a.start - b.start || a.first - b.first)) {
    let lane = 0;
    while (lane < free.length && free[lane] >= chain.start) lane++;
    free[lane] = chain.end;
    chain.lane = lane;
    chain.from = chain.parent === null ? null : laneAt.get(chain.parent);
    for (const row of chain.rows) laneAt.set(row, lane);
  }
  return free.length;
}

function placeOf(node, byId, attempts) {
  const place = {};
  const peers = attempts.get(node.call_id) ?? [];
  if (peers.length > 1) {
    const kind = node.response_id !== null && peers.every((one) => one.response_id === node.response_id) ? "choice" : "attempt";
    place.attempt = `${kind} ${peers.indexOf(node) + 1}/${peers.length}`;
  }
  const siblings = (byId.get(node.parent_id)?.children ?? []).filter((id) => byId.has(id));
  const lines = [...new Set(siblings.map((id) => byId.get(id).call_id ?? id))]; // attempts of a call are one branch
  if (lines.length > 1) place.branch = `branch ${lines.indexOf(node.call_id ?? node.step_id) + 1}/${lines.length}`;
  return place;
}
