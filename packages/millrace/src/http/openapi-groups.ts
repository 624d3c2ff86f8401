/** A group of the document: the beginnings of the paths that belong to it. */
export interface Group {
  name: string;
  description: string;
  paths: readonly string[];
}

/** The groups of the engine's own routes. */
export const ENGINE_GROUPS: readonly Group[] = [
  {
    name: "Commands",
    paths: ["/v1/commands", "/v1/events", "/v1/callback-secret"],
    description: "What is asked for, and what is said to have happened.",
  },
  { name: "Instances", paths: ["/v1/instances"], description: "What became of it: status, steps, effects, messages; retry and undo." },
  { name: "Effects", paths: ["/v1/effects"], description: "Outcomes that nobody knows, to be decided by people." },
  { name: "Approvals", paths: ["/v1/approvals"], description: "Questions that instances ask people." },
  { name: "Dead letters", paths: ["/v1/dead-letters"], description: "Messages that no consumer could finish." },
  {
    name: "Bulk actions",
    paths: ["/v1/bulk-actions"],
    description: "One act on many things at once: counted first, ramped, halted, resumed.",
  },
  { name: "Lanes", paths: ["/v1/lanes"], description: "Queues that keep order for each key: which stand still, and why." },
  { name: "Schedules", paths: ["/v1/schedules"], description: "Commands that are due by the clock." },
  {
    name: "Limits",
    paths: ["/v1/limits"],
    description: "How much of a rate is used, who waits, and what an upstream's refusal has narrowed.",
  },
  { name: "Locks", paths: ["/v1/locks"], description: "What one holds at a time: by whom, since when; and breaking it." },
  { name: "Divergences", paths: ["/v1/divergences"], description: "Where two records of one thing disagree." },
  {
    name: "Finding",
    paths: ["/v1/search", "/v1/correlations", "/v1/keys"],
    description: "Anything by any of its names; a whole job; who holds a key.",
  },
  {
    name: "Catalog",
    paths: ["/v1/catalog"],
    description: "Which messages, queues and workflows there are, and what follows from what; a message looked at before it is sent.",
  },
  { name: "Live", paths: ["/v1/stream", "/v1/stream-tokens"], description: "What happens, as it happens, also in a browser." },
  {
    name: "Tokens",
    paths: ["/v1/tokens", "/v1/caller", "/v1/sign-in-codes", "/console/sign-in"],
    description: "Who may call, with which scopes, until when; and signing in to the console.",
  },
  { name: "Audit", paths: ["/v1/audit"], description: "Who did what, and why." },
  {
    name: "Health",
    paths: ["/metrics", "/v1/queues", "/v1/messages"],
    description: "How the whole deployment does: counts, gauges, queues.",
  },
  { name: "Alerts", paths: ["/v1/alerts"], description: "What people are told of the deployment's health; and muting it." },
  { name: "Costs", paths: ["/v1/costs"], description: "What workflows cost, and the whole deployment a month." },
  { name: "Deployment", paths: ["/"], description: "What this deployment says of itself." },
];

/** The name of the group that a path belongs to: of those whose beginnings fit, the longest decides. */
export function tagOf(path: string, groups: readonly Group[]): string {
  const fitting = groups
    .flatMap(({ name, paths }) => paths.map((start) => ({ name, start })))
    .filter(({ start }) => path === start || path.startsWith(start === "/" ? start : `${start}/`));
  return fitting.reduce((longest, one) => (one.start.length > longest.start.length ? one : longest)).name;
}
