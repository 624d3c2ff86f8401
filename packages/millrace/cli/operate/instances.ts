import { say } from "../terminal.ts";
import type { Instance, InstancePage } from "./answers.ts";
import { stepTeller, toldOf } from "./follow.ts";
import { instanceActs } from "./instance-acts.ts";
import { standing, whyOf } from "./instance-words.ts";
import { PAGED, queryOf, sayPage } from "./list.ts";
import { show } from "./show-instance.ts";
import { type Noun, verb } from "./verb.ts";
import { instanceId, timeOf } from "./which.ts";
import { ago, sayJson, tell } from "./words.ts";

const COLUMNS = ["id", "status", "workflow", "about", "accepted", ""].map((title) => ({ title }));

const list = verb({
  does: "Lists instances, newest first",
  options: {
    status: { value: "STATUS", says: "such as errored, in_doubt, waiting, paused, complete" },
    workflow: { value: "NAME", says: "of this workflow" },
    subject: { value: "TEXT", says: "about this" },
    correlation: { value: "ID", says: "of this job" },
    cause: { value: "ID", says: "failed with this cause" },
    since: { value: "TIME", says: "accepted at or after: 2026-11-25T08:00:00Z, or 30m, 12h, 7d ago" },
    ...PAGED,
  },
  async run(asked) {
    const { text } = asked;
    const since = text("since");
    const query = queryOf({
      ...{ status: text("status"), workflow: text("workflow"), subject: text("subject"), correlation: text("correlation") },
      ...{ cause: text("cause"), since: since === undefined ? since : timeOf(since), limit: text("limit"), cursor: text("cursor") },
    });
    sayPage(asked, await asked.api.get<InstancePage>(`/v1/instances${query}`), {
      columns: COLUMNS,
      row: (one) => [one.id, one.status, one.workflow, one.subject, ago(one.accepted_at), whyOf(one)],
      none: "There is no such instance.",
      isLastProse: true,
    });
    return 0;
  },
});

const tail = verb({
  takes: "ID",
  does: "Follows the steps of an instance until it ends",
  async run(asked) {
    const linesOf = stepTeller();
    for await (const events of toldOf(asked, await instanceId(asked))) {
      if (asked.isJson) for (const event of events) sayJson(event);
      else {
        for (const line of linesOf(events)) say(line);
        const end = events.find(({ event }) => event === "end");
        if (end) tell(standing(end.data as Instance));
      }
    }
    return 0;
  },
});

export const instances: Noun = {
  does: "Instances: each is one execution of a workflow. ID is the id of an instance, or latest",
  verbs: { list, show, tail, ...instanceActs },
};
