/** A group of routes in the OpenAPI document. `paths` are path prefixes of its routes. */
export interface Group {
  name: string;
  description: string;
  paths: readonly string[];
}

export const ENGINE_GROUPS: readonly Group[] = [
  {
    name: "Commands",
    paths: ["/v1/commands", "/v1/events", "/v1/callback-secret", "/inbound"],
    description: "Accept commands, events and webhooks.",
  },
  {
    name: "Instances",
    paths: ["/v1/instances"],
    description: "Read instances with their status, steps, effects and messages; retry, undo, pause and cancel them.",
  },
  { name: "Effects", paths: ["/v1/effects"], description: "Resolve effects with an unknown outcome (`in_doubt`)." },
  { name: "Approvals", paths: ["/v1/approvals"], description: "Read and answer the questions of instances." },
  { name: "Dead letters", paths: ["/v1/dead-letters"], description: "Read, replay and skip messages that no consumer could process." },
  {
    name: "Bulk actions",
    paths: ["/v1/bulk-actions"],
    description: "Apply one action to many items: count them first, run in stages, halt, resume.",
  },
  {
    name: "Lanes",
    paths: ["/v1/lanes"],
    description: "Lanes keep the order of messages per key. Find stalled lanes, pause and resume them.",
  },
  { name: "Schedules", paths: ["/v1/schedules"], description: "Send commands at times of a cron expression." },
  {
    name: "Limits",
    paths: ["/v1/limits"],
    description: "Read the usage of rate limits, the waiting calls, and reductions after refusals of an upstream.",
  },
  { name: "Locks", paths: ["/v1/locks"], description: "Read the holders of locks and break a lock." },
  { name: "Divergences", paths: ["/v1/divergences"], description: "Read differences between two records of the same fact." },
  {
    name: "Finding",
    paths: ["/v1/search", "/v1/correlations", "/v1/keys"],
    description: "Find items by any id or key, a whole job, or the holder of a key.",
  },
  {
    name: "Catalog",
    paths: ["/v1/catalog"],
    description:
      "Read which messages, queues and workflows the deployment has, and how they are connected; check a message before you send it.",
  },
  { name: "Live", paths: ["/v1/stream", "/v1/stream-tokens"], description: "Follow changes as server-sent events, also in a browser." },
  {
    name: "Tokens",
    paths: ["/v1/tokens", "/v1/caller", "/v1/sign-in-codes", "/console/sign-in"],
    description: "Mint, list and revoke API tokens; sign in to the console.",
  },
  { name: "Audit", paths: ["/v1/audit"], description: "Read the actions of operators and their reasons." },
  {
    name: "Health",
    paths: ["/metrics", "/v1/queues", "/v1/messages", "/v1/workflows"],
    description: "Read counters, gauges and queue health of the whole deployment.",
  },
  { name: "Alerts", paths: ["/v1/alerts"], description: "Read and mute alerts about the health of the deployment." },
  { name: "Costs", paths: ["/v1/costs"], description: "Read the cost of workflows and the monthly cost of the deployment." },
  { name: "Model Context Protocol", paths: ["/mcp"], description: "Use the operations as tools of a language model." },
  { name: "Deployment", paths: ["/"], description: "The API document, the health check and the problem reference." },
];

/** The name of the group with the longest prefix that matches a path. */
export function tagOf(path: string, groups: readonly Group[]): string {
  const fitting = groups
    .flatMap(({ name, paths }) => paths.map((start) => ({ name, start })))
    .filter(({ start }) => path === start || path.startsWith(start === "/" ? start : `${start}/`));
  return fitting.reduce((longest, one) => (one.start.length > longest.start.length ? one : longest)).name;
}
