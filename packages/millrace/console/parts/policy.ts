import type { Answer } from "../data/api.ts";
import { seconds } from "./text.tsx";

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
