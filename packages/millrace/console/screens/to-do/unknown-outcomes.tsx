import { useState } from "preact/hooks";
import { get, type Item as ItemOf } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { AnswerDoubt, type AskedOfDoubt, DoubtAnswers, type DoubtVerb } from "../../parts/answer.tsx";
import { Json } from "../../parts/json.tsx";
import { Empty, Item, ProblemNote, useTold } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Name, Text } from "../../parts/text.tsx";
import { BulkAct, type Meant } from "../actions/bulk-act.tsx";

const MOST = 100;

export function UnknownOutcomes() {
  const [asked, ask] = useState<AskedOfDoubt | undefined>();
  const { data, problem, again } = useData(
    () => get("/v1/effects", { query: { limit: String(MOST) } }),
    [],
    ({ kind, data }) => kind === "doubt" || (kind === "action" && ["confirm", "reject", "retry_anyway"].includes(String(data.verb))),
  );
  const { told, line } = useTold(again);
  return (
    <>
      <p class="quiet">
        An attempt was cut off after its request, and the effect class forbids an automatic repeat. Check the upstream, then choose: it
        happened, it did not happen, or unknown. If an effect happened but its rows were refused, deploy code with valid rows first.
      </p>
      {line}
      {problem && <ProblemNote problem={problem} />}
      {data?.items.length === 0 && <Empty>No effect has an unknown outcome.</Empty>}
      {may("operate") && <Together doubts={data?.items ?? []} />}
      <ul class="items">
        {data?.items.map((doubt) => (
          <Row key={doubt.key} doubt={doubt} answer={(verb) => ask({ doubt, verb, follows: doubt.follows })} />
        ))}
      </ul>
      {data?.items.length === MOST && <p class="quiet">The {MOST} oldest. Decide these to see the next.</p>}
      {asked && <AnswerDoubt {...asked} done={(then) => told(`Answered. ${then}`)} close={() => ask(undefined)} />}
    </>
  );
}

/** Shows the unknown outcomes of each step as a group with a bulk resolution, because one outage often causes many of them. */
function Together({ doubts }: { doubts: readonly ItemOf<"/v1/effects">[] }) {
  const [meant, mean] = useState<Meant | undefined>();
  const steps = Map.groupBy(doubts, ({ workflow, step }) => JSON.stringify({ workflow, step }));
  const many = [...steps].filter(([, of]) => of.length > 1);
  // A dialog that is already open remains open, and shows that no effects are left.
  if (many.length === 0 && !meant) return null;
  return (
    <>
      <p class="acts together">
        {many.map(([name, of]) => (
          <button key={name} type="button" onClick={() => mean({ filter: JSON.parse(name) as Record<string, string> })}>
            Decide all of {of[0]?.workflow} · {of[0]?.step} together …
          </button>
        ))}
      </p>
      {meant && <BulkAct verbs={["reject", "retry_anyway"]} meant={meant} close={() => mean(undefined)} />}
    </>
  );
}

function Row({ doubt, answer }: { doubt: ItemOf<"/v1/effects">; answer: (verb: DoubtVerb) => void }) {
  const { step, item, instance_id, workflow, subject, error, input, updated_at: at } = doubt;
  return (
    <Item
      mark={<Status word="in_doubt" />}
      title={
        <>
          <Name of={item ? `${step} [${item}]` : step} /> of{" "}
          <Link to={hrefOf("instances", instance_id)}>
            {workflow} · <bdi>{subject}</bdi>
          </Link>
        </>
      }
      notes={[
        <>
          {doubt.class} · <Ago label="recorded" at={at} />
          <Text before=" · " of={error?.message} />
        </>,
      ]}
    >
      {input !== null && (
        <details>
          <summary>Input</summary>
          <Json value={input} label={`Input of ${step}`} />
        </details>
      )}
      {may("operate") && <DoubtAnswers follows={doubt.follows} answer={answer} />}
    </Item>
  );
}
