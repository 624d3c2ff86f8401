import { useMemo } from "preact/hooks";
import type { Answer, Item } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import { tell } from "../../data/notices.ts";
import { may, session } from "../../data/session.ts";
import { useList, useShown } from "../../data/use-data.ts";
import { hrefOf } from "../../frame/router.tsx";
import { ActButtons, type Ask, type Declared, useActs } from "../../parts/act.tsx";
import { JsonText } from "../../parts/json.tsx";
import { Empty } from "../../parts/page.tsx";
import { type Column, TableList } from "../../parts/table.tsx";
import { Ago, Quiet } from "../../parts/text.tsx";

type Token = Item<"/v1/tokens">;
type Minted = Answer<"/v1/tokens", "$post">;

export function Tokens() {
  const pages = useList("/v1/tokens", {});
  const { ask, told, line } = useActs(pages.again);
  const columns = useMemo(() => columnsFor(ask), []);
  const isShown = useShown();
  const show = (one: Minted) => {
    if (!isShown.current)
      return tell({ said: `The token of ${one.actor} was created but not shown: revoke it.`, href: hrefOf("settings", "tokens") });
    told(
      <>
        Copy the token of <bdi>{one.actor}</bdi> now. It is not shown again.
        <JsonText text={one.token} label="The token" />
      </>,
    );
  };
  if (!may("tokens"))
    return (
      <Empty command="npx millrace token --tenant … --actor … --scopes tokens">
        Your token lacks the scope tokens. Use a token with this scope, or mint one with access to the database:
      </Empty>
    );
  return (
    <>
      <div class="settings-bar">
        <p class="quiet">Token values cannot be shown again: only a hash is stored. Expired tokens are listed for 30 days.</p>
        <ActButtons ask={ask} of={[{ ...mint(show), class: "main" }]} />
      </div>
      {line}
      <TableList
        label="Tokens"
        pages={pages}
        noun={["token", "tokens"]}
        columns={columns}
        empty="This tenant has no token: you signed in with Cloudflare Access. Mint one for a program."
      />
    </>
  );
}

const isOwn = ({ id }: Pick<Token, "id">) => session.get().token?.startsWith(`mr_${id}_`) ?? false;
const isOver = ({ expires_at: at }: Token) => at !== null && Date.parse(at) <= timeNow();

const REVOKE = { verb: "Revoke", at: "/v1/tokens/:id", how: "DELETE", class: "plain" } as const;

function columnsFor(ask: Ask): readonly Column<Token>[] {
  const actionOf = (one: Token) =>
    isOver(one) ? (
      <Quiet of="expired" />
    ) : (
      <ActButtons ask={ask} of={[{ ...REVOKE, about: one.actor, param: { id: one.id }, label: `Revoke the token of ${one.actor}` }]} />
    );
  return [
    {
      head: "Holder",
      width: "1.2fr",
      cell: (one) => [<bdi key="actor">{one.actor}</bdi>, " ", isOwn(one) && <Quiet key="own" of="this page" />],
    },
    { head: "Id", width: "152px", isMinor: true, cell: ({ id }) => <code>{id}</code> },
    { head: "Scopes", width: "2fr", isMinor: true, cell: ({ scopes }) => <span title={scopes.join(", ")}>{scopes.join(", ")}</span> },
    { head: "Created", width: "88px", isMinor: true, cell: ({ created_at }) => <Ago at={created_at} /> },
    { head: "Last used", width: "88px", isMinor: true, cell: ({ last_used_at: at }) => (at ? <Ago at={at} /> : <Quiet of="never" />) },
    { head: "Expires", width: "104px", narrow: "88px", cell: ({ expires_at: at }) => (at === null ? "never" : <Ago at={at} />) },
    { head: "Action", width: "96px", cell: actionOf },
  ];
}

const MEANS: Readonly<Record<string, string>> = {
  enqueue: "send commands and events",
  read: "read all data of the tenant",
  operate: "retry, undo, answer questions",
  unattributed: "read data without a tenant",
  tokens: "mint and revoke tokens",
  pull: "consume from pull queues",
  embedded: "control the embedded upstreams of a development engine",
  observe: "read the health of the deployment",
  reveal: "reveal withheld fields",
};

/** The action that mints a token with at most the scopes of the user. */
function mint(done: (minted: Minted) => void): Declared {
  const own = session.get().caller?.scopes ?? [];
  const oneOf = own.map((one) => ({ const: one, description: MEANS[one] ?? "a scope of this deployment" }));
  return {
    ...{ verb: "Mint a token", at: "/v1/tokens", fill: { scopes: ["read"] }, done },
    shape: ({ scopes, ...fields }) => ({ ...fields, scopes: { ...scopes, items: { oneOf } } }),
  };
}
