/** The groups of the document, and the beginnings of the paths that belong to each: the longest one that fits decides. */
const GROUPS = [
  { name: "Commands", paths: ["/v1/commands", "/v1/events"], description: "What is asked for, and what is said to have happened." },
  { name: "Instances", paths: ["/v1/instances"], description: "What became of it: status, steps, effects, messages; retry and undo." },
  { name: "Effects", paths: ["/v1/effects"], description: "Outcomes that nobody knows, to be decided by people." },
  { name: "Approvals", paths: ["/v1/approvals"], description: "Questions that instances ask people." },
  { name: "Dead letters", paths: ["/v1/dead-letters"], description: "Messages that no consumer could finish." },
  { name: "Schedules", paths: ["/v1/schedules"], description: "Commands that are due by the clock." },
  { name: "Tenant", paths: ["/v1/tenant"], description: "The whole of what is kept of one." },
  { name: "Tokens", paths: ["/v1/tokens"], description: "Who may call, with which scopes, until when." },
  { name: "Audit", paths: ["/v1/audit"], description: "Who did what, and why." },
  {
    name: "Facts",
    paths: ["/v1/facts", "/v1/ledgers", "/v1/projections"],
    description: "Ledgers of facts, and the projection across them.",
  },
  { name: "Rules", paths: ["/v1/qualification-rules"], description: "What makes charges and payouts of outcomes." },
  { name: "Budgets", paths: ["/v1/budgets"], description: "Asked before money is spent." },
  { name: "Contacts", paths: ["/v1/contacts"], description: "People, and as whom they are known." },
  { name: "Webhooks", paths: ["/v1/webhooks"], description: "Facts delivered to others, signed as Standard Webhooks says." },
  { name: "Batches", paths: ["/v1/batches"], description: "Files: import, export, reconcile." },
  { name: "Brands", paths: ["/v1/brands"], description: "What a brand's agent may do, and what it decided." },
  { name: "Articles", paths: ["/v1/articles", "/v1/usage"], description: "Drafts, pages, and the tokens they cost." },
  { name: "CRM", paths: ["/v1/crm", "/crm"], description: "Contacts in a CRM, both ways." },
  { name: "Pages", paths: ["/pages"], description: "What is published, for people and feed readers." },
  { name: "Deployment", paths: ["/"], description: "What this deployment says of itself." },
  { name: "Drills", paths: ["/embedded"], description: "The local stand-ins of upstreams. No such routes where they are not switched on." },
] as const;

export const TAGS = GROUPS.map(({ name, description }) => ({ name, description }));

/** The name of the group that a path belongs to. */
export function tagOf(path: string): string {
  const fitting = GROUPS.flatMap(({ name, paths }) => paths.map((start) => ({ name, start }))).filter(
    ({ start }) => path === start || path.startsWith(start === "/" ? start : `${start}/`),
  );
  return fitting.reduce((longest, one) => (one.start.length > longest.start.length ? one : longest)).name;
}
