import { useState } from "preact/hooks";
import { get, post } from "../../data/api.ts";
import { usePages } from "../../data/use-data.ts";
import { Act } from "../../parts/act.tsx";
import { Button, Empty, Item, Items, useTold } from "../../parts/page.tsx";
import { Ago, Name, Text } from "../../parts/text.tsx";

export function Locks() {
  const [asked, ask] = useState<{ name: string; waiting: number } | undefined>();
  const pages = usePages((cursor) => get("/v1/locks", { query: { cursor } }), [], {
    nameOf: ({ name }) => name,
    isAbout: ({ kind, data }) => kind === "action" && data.verb === "break",
  });
  const { told, line } = useTold(pages.again);
  return (
    <>
      <div class="settings-bar">
        <p class="quiet">Locks held for ten seconds or more. This list is not updated automatically.</p>
        <Button press={pages.again}>Refresh</Button>
      </div>
      {line}
      <Items
        pages={pages}
        noun={["lock", "locks"]}
        empty={
          <Empty command="await lockOf(env, { name }).with(async () => …)">
            No lock has been held for ten seconds. Code takes a lock for work that only one holder may do at a time:
          </Empty>
        }
      >
        {({ name, holder, since, until, waiting, token }) => (
          <Item
            key={name}
            mark={<Ago at={since} />}
            title={[<Name key="name" of={name} />, " held by ", <Text key="by" of={holder || "an unnamed holder"} />]}
            notes={[
              [
                `${waiting === 0 ? "none" : waiting} waiting · `,
                <Ago key="until" label="expires" at={until} />,
                ` unless renewed · fencing token ${token}`,
              ],
            ]}
            acts={<Button press={() => ask({ name, waiting })}>Break</Button>}
          />
        )}
      </Items>
      {asked && (
        <Act
          title={`Break ${asked.name}`}
          verb="Break it"
          final="The holder cannot get the lock back."
          show={() => (
            <p>
              The holder loses the lock{asked.waiting > 0 ? ", and the next one waiting gets it" : ""}. The holder learns this when it
              renews. Its fenced writes are refused after the next holder has written.
            </p>
          )}
          act={(reason) => post("/v1/locks/:name/break", { param: { name: asked.name }, body: { reason } })}
          done={({ broken, action_id }) => told(broken ? `Broken (action ${action_id}).` : "The lock was already free.")}
          close={() => ask(undefined)}
        />
      )}
    </>
  );
}
