import { mutantsOf } from "./mutant.ts";

const LEDGER = "src/systems/facts/ledger/ledger.ts";

/** Facts that are counted twice, changed or lost. */
export const LEDGERS = mutantsOf("ledger", {
  "a fact with another text counts as a repeat": {
    file: "src/systems/facts/ledger/forgotten-facts.ts",
    find: 'isSame ? "duplicate" : "differs"',
    put: '"duplicate"',
    killedBy: "test/systems/facts/append.test.ts",
  },
  "a pruned fact that is sent again counts as new": {
    file: "src/systems/facts/ledger/forgotten-facts.ts",
    find: "UNION ALL SELECT sequence, fingerprint FROM pruned WHERE fact_id IN (?1, ?2)",
    put: "AND ?2 <> ''",
    killedBy: "test/systems/facts/outbox.test.ts",
  },
  "unconfirmed facts are pruned": {
    file: LEDGER,
    find: "const stays = FEEDS.flatMap((feed) => this.#outboxes[feed].unconfirmed({ limit: 1 }));",
    put: "const stays: number[] = [];",
    killedBy: "test/systems/facts/outbox.test.ts",
  },
  "facts are appended without an alarm": {
    file: LEDGER,
    find: "this.#wakeBy(Date.now() + CONFIRM_WITHIN_MS);",
    put: "",
    killedBy: "test/systems/facts/outbox.test.ts",
  },
  "a ledger accepts a confirmation from before its replay": {
    file: "src/systems/facts/ledger/outbox.ts",
    find: "if (epoch !== cursor.epoch) return;",
    put: "",
    killedBy: "test/systems/facts/ledger.test.ts",
  },
});
