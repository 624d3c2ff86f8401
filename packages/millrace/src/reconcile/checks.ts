import type { Catalog } from "../topology/catalog.ts";
import type { Check } from "./check.ts";
import { doubts } from "./checks/doubts.ts";
import { ends } from "./checks/ends.ts";
import { entries } from "./checks/entries.ts";
import { instances } from "./checks/instances.ts";
import { lanes } from "./checks/lanes.ts";
import { letters } from "./checks/letters.ts";
import { locks } from "./checks/locks.ts";
import { outbox } from "./checks/outbox.ts";
import { payloads } from "./checks/payloads.ts";
import { promises } from "./checks/promises.ts";
import { schedules } from "./checks/schedules.ts";
import { setBack } from "./checks/set-back.ts";
import { sleepers } from "./checks/sleepers.ts";

/**
 * The engine's own checks. Records in progress are checked each hour, other records once a day. docs/reconciliation.md lists the kinds of
 * divergence, and a test compares the page with this list.
 */
export const engineChecks = (catalog?: Catalog): readonly Check[] => [
  sleepers,
  doubts,
  outbox(catalog),
  letters,
  promises,
  schedules,
  locks,
  lanes,
  instances,
  entries(catalog),
  ends,
  setBack,
  payloads,
];
