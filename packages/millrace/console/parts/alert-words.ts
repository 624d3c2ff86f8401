import type { Answer } from "../data/api.ts";
import { hrefOf } from "../frame/router.tsx";
import { seconds } from "./text.tsx";

interface Rule {
  says: string;
  /** True for a rule about new failures: the status `resolved` does not mean that earlier failures are fixed. */
  isOfArrivals?: boolean;
  to?: (labels: Readonly<Record<string, string>>) => string;
}

const toInstances = (status: string) => (labels: Readonly<Record<string, string>>) =>
  hrefOf("instances", { status, workflow: labels.workflow });
const toLetters = ({ queue, reason }: Readonly<Record<string, string>>) => hrefOf("dead-letters", { queue, reason });
const toQueues = () => hrefOf("queues");
const toQuestions = () => hrefOf("to-do", "questions");

/** The engine's rules (docs/alerts.md). For an alert rule of an app, the name of the rule is shown. */
const RULES: Readonly<Record<string, Rule>> = {
  dead_letter_arrived: { says: "Dead letters arrived", isOfArrivals: true, to: toLetters },
  dead_letter_escalated: { says: "A dead letter is escalated", to: ({ dead_letter: id }) => hrefOf("dead-letters", ...(id ? [id] : [])) },
  breaker_tripped: { says: "A breaker paused a workflow", to: ({ workflow }) => hrefOf("catalog", `workflow ${workflow}`) },
  instances_errored: { says: "Instances failed", isOfArrivals: true, to: toInstances("errored") },
  errored_depth: { says: "Failed instances need an operator", to: toInstances("errored") },
  dlq_depth: { says: "Dead letters need an operator", to: toLetters },
  queue_depth: { says: "A queue has a large backlog", to: toQueues },
  processing_p99: { says: "Batches of a queue are slow", to: toQueues },
  retry_ratio: { says: "A queue retries many messages", to: toQueues },
  backlog_age: { says: "Messages of a queue are close to their retention limit", to: toQueues },
  effects_in_doubt: { says: "Effects have an unknown outcome (in doubt)", to: () => hrefOf("to-do", "unknown-outcomes") },
  instances_overdue: { says: "Instances are overdue", to: ({ workflow }) => hrefOf("instances", { overdue: "true", workflow }) },
  version_missing: { says: "Instances lack their version" },
  approvals_waiting: { says: "Questions wait for an answer", to: toQuestions },
  approvals_pressing: { says: "Questions are about to time out", to: toQuestions },
  instances_unchecked: { says: "The keeper is late in checking instances" },
  lanes_blocked: { says: "Lanes are stalled", to: ({ lane }) => hrefOf("queues", { lane }) },
  projection_lag: { says: "A projection lags" },
  outbox_unconfirmed: { says: "Messages wait to be sent" },
  outbox_refused: { says: "A queue refuses messages" },
  schedules_overdue: { says: "Schedules are late", to: () => hrefOf("settings", "schedules") },
  keeper_late: { says: "The keeper ran late" },
  cell_unavailable: { says: "A cell does not answer" },
  object_size: { says: "An object is close to its storage limit" },
  divergences: { says: "Records and database rows diverge" },
};

export function ruleOf(name: string): Rule {
  return RULES[name] ?? { says: name.replaceAll("_", " ") };
}

export function groupOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`)
    .join(", ");
}

type Queue = Answer<"/v1/catalog">["queues"][number];

export function policyOf({ retries, batch_size, batch_wait_seconds, concurrency, is_lane, has_priorities }: Queue) {
  const { limit, initial_seconds: initial, max_seconds: most } = retries;
  return {
    Retries: limit === 0 ? "none" : `${limit}, ${seconds(initial)} to ${seconds(most)}`,
    Batch: is_lane ? "1" : `${batch_size}${batch_wait_seconds > 0 ? ` or ${seconds(batch_wait_seconds)}` : ""}`,
    Concurrency: `${concurrency}${is_lane ? " per key" : ""}`,
    Priorities: has_priorities ? "yes" : "no",
  };
}
