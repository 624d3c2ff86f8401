import { Misuse } from "../command.ts";
import { oneLine } from "../terminal.ts";
import { DRY_RUN, REASON, reasonOf } from "./act.ts";
import type { Instance } from "./answers.ts";
import { goesOn, WAIT } from "./follow.ts";
import { type Plan, sayPlan } from "./plan.ts";
import { type Asked, type Option, type Verb, verb } from "./verb.ts";
import { instanceId, pathOf } from "./which.ts";
import { sayJson, tell, typedJson } from "./words.ts";

/** What a promised act answers. */
interface Promised {
  action_id: string;
  from?: string | null;
  follows?: string;
}

type Common = "reason" | "dry-run" | "wait";

interface Act<Own extends string> {
  does: string;
  /** What is said once it is promised. */
  done: string;
  options?: Readonly<Record<Own, Option>>;
  /** What its request says beside the reason. */
  body?: (asked: Asked<Own>) => Promise<object> | object;
  /** What the run comes to by it; without, there is nothing to wait for. */
  comesTo?: Instance["status"];
}

/** An act on one instance, whose dry run says what it would do. */
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
      // From its beginning, reads and sleeps are repeated.
      const follows = promised.from === null && promised.follows ? ` ${promised.follows}` : "";
      tell(oneLine(`${done}${promised.from ? `, from “${promised.from}”` : ""}.${follows}`));
      if (comesTo) return goesOn(asked, id, promised, comesTo);
      if (asked.isJson) sayJson(promised);
      return 0;
    },
  });
}

/** What a person does with one instance. */
export const instanceActs: Readonly<Record<string, Verb>> = {
  retry: act("retry", {
    does: "Tries an errored or terminated instance again, from the step that failed; what is recorded is not repeated",
    done: "It runs again",
    options: {
      from: { value: "STEP", says: "start at this step instead" },
      anyway: { says: "with --from: also where the code caught the step's failure and did something else" },
    },
    body: ({ text, isSet }) => ({ ...(text("from") !== undefined && { from: text("from") }), ...(isSet("anyway") && { anyway: true }) }),
    comesTo: "complete",
  }),
  cancel: act("cancel", {
    does: "Stops an instance that is under way, and takes back what it did",
    done: "It is being cancelled",
    options: { "no-undo": { says: "leave standing what it did" } },
    body: ({ isSet }) => ({ undo: !isSet("no-undo") }),
    comesTo: "terminated",
  }),
  undo: act("undo", { does: "Takes back what an ended instance did, in reverse order", done: "It is being undone", comesTo: "terminated" }),
  pause: act("pause", { does: "Lets no further step of an instance begin until it is resumed", done: "It is paused" }),
  resume: act("resume", { does: "Lets a paused instance go on where it stood", done: "It goes on", comesTo: "complete" }),
  restart: act("restart", {
    does: "Passes anew through the code of an instance that hangs; what is recorded is not repeated",
    done: "It is being restarted",
    comesTo: "complete",
  }),
  skip: act("skip", {
    does: "Goes on behind the step that an instance failed of, with an output that you give",
    done: "It goes on behind the step",
    options: {
      step: { value: "STEP", says: "the step that failed, by its name in the code" },
      item: { value: "KEY", says: "which call of it, where it is an item of a map" },
      output: { value: "JSON", says: "what the step answers to the code behind it: null for nothing; @FILE, -" },
    },
    async body({ text }) {
      const [step, item, output] = [text("step"), text("item"), text("output")];
      if (step === undefined) throw new Misuse("--step is missing: name the step that failed, as `instances show` does.");
      return { step, ...(item !== undefined && { item }), ...(output !== undefined && { output: await typedJson("output", output) }) };
    },
    comesTo: "complete",
  }),
  close: act("close", {
    does: "Leaves an instance that failed as it is, for good: nothing retries or undoes it any more",
    done: "It is closed",
  }),
};
