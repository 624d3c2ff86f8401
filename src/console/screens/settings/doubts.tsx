import { useState } from "preact/hooks";
import { get } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { AnswerDoubt } from "../../parts/answer.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Json } from "../../parts/json.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { useTold } from "./told.tsx";

const ANSWERS = { confirm: "It happened", reject: "It did not", retry: "Run it again" } as const;
const MOST = 100;

/** Effects of which nobody knows whether they happened: each is answered here. */
export function Doubts() {
  const [asked, ask] = useState<{ name: string; step: string; verb: keyof typeof ANSWERS } | undefined>();
  const { data, problem, again } = useData(
    () => get("/v1/effects", { query: { limit: String(MOST) } }),
    [],
    ({ kind, data }) => kind === "doubt" || (kind === "action" && ["confirm", "reject", "retry"].includes(String(data.verb))),
  );
  const { told, line } = useTold(again);
  return (
    <>
      <p class="quiet">
        An attempt was cut off behind its request, and its class lets nobody repeat it unasked. Look at the receiving side first: it
        happened, it did not, or nobody can tell.
      </p>
      {line}
      {problem && <ProblemNote problem={problem} />}
      {data?.items.length === 0 && (
        <Empty command="npm run demo -- operate">Nothing is in doubt. This brings something into doubt, and answers it:</Empty>
      )}
      <ul class="settings-things">
        {data?.items.map(({ key, step, item, instance_id, class: kind, error, input, updated_at: at }) => (
          <li key={key}>
            <Status word="in_doubt" />
            <div>
              <p>
                <strong>
                  <bdi>
                    {step}
                    {item && ` [${item}]`}
                  </bdi>
                </strong>{" "}
                of <Link to={hrefOf("instances", instance_id)}>this instance</Link>
              </p>
              <p class="quiet">
                {kind} · since <Ago at={at} />
                {error && (
                  <>
                    {" "}
                    · <bdi>{error.message}</bdi>
                  </>
                )}
              </p>
              {input !== null && (
                <details>
                  <summary>What it sent</summary>
                  <Json value={input} label={`What ${step} sent`} />
                </details>
              )}
            </div>
            {may("operate") && (
              <div class="acts">
                {(Object.keys(ANSWERS) as (keyof typeof ANSWERS)[]).map((verb) => (
                  <button key={verb} type="button" onClick={() => ask({ name: key, step, verb })}>
                    {ANSWERS[verb]}
                  </button>
                ))}
              </div>
            )}
          </li>
        ))}
      </ul>
      {data?.items.length === MOST && <p class="quiet">The {MOST} oldest: answering them brings up the next.</p>}
      {asked && <AnswerDoubt {...asked} done={(action) => told(`Answered, as action ${action}.`)} close={() => ask(undefined)} />}
    </>
  );
}
