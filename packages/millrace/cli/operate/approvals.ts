import { REASON, reasonOf } from "./act.ts";
import type { ApprovalPage, Resolved } from "./answers.ts";
import { goesOn, WAIT } from "./follow.ts";
import { PAGED, queryOf, sayPage } from "./list.ts";
import { type Noun, type Verb, verb } from "./verb.ts";
import { pathOf } from "./which.ts";
import { moment, tell } from "./words.ts";

const COLUMNS = ["id", "workflow", "state", "else", "until", "question"].map((title) => ({ title }));

const list = verb({
  does: "Lists questions to operators, newest first",
  options: { state: { value: "STATE", says: "pending, approved or rejected; default pending" }, ...PAGED },
  async run(asked) {
    const { text } = asked;
    const query = queryOf({ state: text("state") ?? "pending", limit: text("limit"), cursor: text("cursor") });
    sayPage(asked, await asked.api.get<ApprovalPage>(`/v1/approvals${query}`), {
      columns: COLUMNS,
      row: ({ id, workflow, state, otherwise, due_at, question }) => [id, workflow, state, otherwise, moment(due_at), question],
      none: "No questions.",
      isLastProse: true,
    });
    return 0;
  },
});

function answer(name: string, does: string): Verb {
  return verb({
    takes: "ID",
    does,
    options: { ...REASON, ...WAIT },
    async run(asked) {
      const decided = await asked.api.act<Resolved>(pathOf("approvals", asked.about, `/${name}`), { reason: reasonOf(asked) });
      tell(`Answered: ${decided.instance_id} continues.`);
      return goesOn(asked, decided.instance_id, decided);
    },
  });
}

export const approvals: Noun = {
  does: "Questions of instances to operators. ID is the id of a question from the list",
  verbs: {
    list,
    approve: answer("approve", "Approves a question: the instance continues"),
    reject: answer("reject", "Rejects a question: the instance continues without approval"),
  },
};
