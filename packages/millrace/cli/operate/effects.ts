import { Misuse } from "../command.ts";
import { REASON, reasonOf } from "./act.ts";
import type { EffectList, EffectPage, Resolved } from "./answers.ts";
import { goesOn, WAIT } from "./follow.ts";
import { PAGED, queryOf, sayPage } from "./list.ts";
import { type Asked, type Noun, type Option, type Verb, verb } from "./verb.ts";
import { instanceId, pathOf } from "./which.ts";
import { ago, shownJson, stepName, tell, typedJson } from "./words.ts";

type Effect = EffectList["items"][number];

const COLUMNS = ["key", "step", "class", "state", "since", "sent"].map((title) => ({ title }));

const list = verb({
  does: "Lists effects with an unknown outcome, oldest first; or all effects of one instance",
  options: {
    instance: { value: "ID", says: "all effects of this instance, or of latest" },
    workflow: { value: "NAME", says: "with an unknown outcome, of this workflow" },
    step: { value: "STEP", says: "with an unknown outcome, of this step" },
    ...PAGED,
  },
  async run(asked) {
    const { api, text } = asked;
    const of = text("instance");
    const query = queryOf({ workflow: text("workflow"), step: text("step"), limit: text("limit"), cursor: text("cursor") });
    if (of !== undefined && query !== "") throw new Misuse("--instance cannot be combined: it lists all effects of that instance.");
    const path = of === undefined ? `/v1/effects${query}` : pathOf("instances", await instanceId({ ...asked, about: of }), "/effects");
    sayPage(asked, await api.get<EffectPage | EffectList>(path), {
      columns: COLUMNS,
      row: (one: Effect) => [
        one.key,
        stepName(one),
        one.class,
        one.state,
        ago(one.updated_at),
        one.input === null ? "" : shownJson(one.input),
      ],
      none: of === undefined ? "No effect has an unknown outcome." : "The instance has no recorded effect.",
      isLastProse: true,
    });
    return 0;
  },
});

interface Answer {
  does: string;
  options?: Readonly<Record<"output", Option>>;
  body?: (asked: Asked<"output">) => Promise<object>;
}

function answer(name: string, { does, options, body }: Answer): Verb {
  return verb<"reason" | "output" | "wait">({
    takes: "KEY",
    does,
    options: { ...REASON, ...options, ...WAIT } as Record<"reason" | "output" | "wait", Option>,
    async run(asked) {
      const reason = reasonOf(asked);
      const own = (await body?.(asked)) ?? {};
      const resolved = await asked.api.act<Resolved>(pathOf("effects", asked.about, `/${name}`), { ...own, reason });
      tell(`Decided: ${resolved.instance_id} continues.`);
      return goesOn(asked, resolved.instance_id, resolved);
    },
  });
}

export const effects: Noun = {
  does: "Effects of steps on other systems. KEY is the key of an effect from the list",
  verbs: {
    list,
    confirm: answer("confirm", {
      does: "Confirms that an effect happened, with its output",
      options: { output: { value: "JSON", says: "its output: null if none; @FILE, -" } },
      async body({ text }) {
        const output = text("output");
        if (output === undefined) throw new Misuse("--output is missing: give the output of the effect, or null if none.");
        return { output: await typedJson("output", output) };
      },
    }),
    reject: answer("reject", { does: "Rejects an effect: it did not happen, and the step runs again" }),
    retry: answer("retry", { does: "Runs an effect with an unknown outcome again: it may happen twice" }),
  },
};
