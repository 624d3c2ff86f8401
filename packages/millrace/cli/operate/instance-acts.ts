import { Misuse } from "../command.ts";
import { oneLine } from "../terminal.ts";
import { DRY_RUN, REASON, reasonOf } from "./act.ts";
import type { Instance } from "./answers.ts";
import { goesOn, WAIT } from "./follow.ts";
import { type Plan, sayPlan } from "./plan.ts";
import { type Asked, type Option, type Verb, verb } from "./verb.ts";
import { instanceId, pathOf } from "./which.ts";
import { sayJson, tell, typedJson } from "./words.ts";

interface Promised {
  action_id: string;
  from?: string | null;
  follows?: string;
}

type Common = "reason" | "dry-run" | "wait";

interface Act<Own extends string> {
  does: string;
  done: string;
  options?: Readonly<Record<Own, Option>>;
  body?: (asked: Asked<Own>) => Promise<object> | object;
  /** The status after the action. Without it, `--wait` does not apply. */
  comesTo?: Instance["status"];
}

function act<Own extends string = never>(name: string, { does, done, options, body, comesTo }: Act<Own>): Verb {
  return verb<Own | Common>({
    takes: "ID",
    does,
    options: { ...REASON, ...options, ...DRY_RUN, ...(comesTo && WAIT) } as Record<Own | Common, Option>,
    async run(asked) {
      const isDryRun = asked.isSet("dry-run");
      const reason = reasonOf(asked, isDryRun);
      const own = (await body?.(asked)) ?? {};
      const id = await instanceId(asked);
      const path = pathOf("instances", id, `/${name}`);
      if (isDryRun) return sayPlan(await asked.api.send<Plan>(path, { ...own, reason, dry_run: true }), asked.isJson);
      const promised = await asked.api.act<Promised>(path, { ...own, reason });
      // A run from its beginning also repeats reads and sleeps.
      const follows = promised.from === null && promised.follows ? ` ${promised.follows}` : "";
      tell(oneLine(`${done}${promised.from ? `, from “${promised.from}”` : ""}.${follows}`));
      if (comesTo) return goesOn(asked, id, promised, comesTo);
      if (asked.isJson) sayJson(promised);
      return 0;
    },
  });
}

export const instanceActs: Readonly<Record<string, Verb>> = {
  retry: act("retry", {
    does: "Retries an errored or terminated instance from its failed step; recorded effects are not repeated",
    done: "It runs again",
    options: {
      from: { value: "STEP", says: "start at this step instead" },
      anyway: { says: "with --from: allow the step even if the code caught its failure and continued" },
    },
    body: ({ text, isSet }) => ({ ...(text("from") !== undefined && { from: text("from") }), ...(isSet("anyway") && { anyway: true }) }),
    comesTo: "complete",
  }),
  cancel: act("cancel", {
    does: "Cancels a running instance and undoes its effects",
    done: "The cancel was accepted",
    options: { "no-undo": { says: "keep its effects" } },
    body: ({ isSet }) => ({ undo: !isSet("no-undo") }),
    comesTo: "terminated",
  }),
  undo: act("undo", {
    does: "Undoes the effects of an ended instance, in reverse order",
    done: "The undo was accepted",
    comesTo: "terminated",
  }),
  pause: act("pause", { does: "Pauses an instance: no further step starts until it is resumed", done: "It is paused" }),
  resume: act("resume", { does: "Resumes a paused instance", done: "It continues", comesTo: "complete" }),
  restart: act("restart", {
    does: "Restarts an instance that hangs; recorded effects are not repeated",
    done: "The restart was accepted",
    comesTo: "complete",
  }),
  skip: act("skip", {
    does: "Skips the failed step of an instance, with an output that you give",
    done: "It continues after the step",
    options: {
      step: { value: "STEP", says: "the failed step, by its name in the code" },
      item: { value: "KEY", says: "the key of the call, for an item of a map" },
      output: { value: "JSON", says: "the output of the step: null if none; @FILE, -" },
    },
    async body({ text }) {
      const [step, item, output] = [text("step"), text("item"), text("output")];
      if (step === undefined) throw new Misuse("--step is missing: name the failed step, as printed by `instances show`.");
      return { step, ...(item !== undefined && { item }), ...(output !== undefined && { output: await typedJson("output", output) }) };
    },
    comesTo: "complete",
  }),
  close: act("close", {
    does: "Closes a failed instance permanently: it cannot be retried or undone",
    done: "It is closed",
  }),
};
