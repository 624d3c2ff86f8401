import type { ComponentChildren } from "preact";
import type { Answer, Item } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import { tell } from "../../data/notices.ts";
import { may, session } from "../../data/session.ts";
import { useShown } from "../../data/use-data.ts";
import { hrefOf } from "../../frame/router.tsx";
import { ActButtons, type Declared } from "../../parts/act.tsx";
import { JsonText } from "../../parts/json.tsx";
import { List } from "../../parts/list.tsx";
import { Empty } from "../../parts/page.tsx";
import type { Column } from "../../parts/table.tsx";
import { Ago, Quiet } from "../../parts/text.tsx";

type Token = Item<"/v1/tokens">;
type Minted = Answer<"/v1/tokens", "$post">;

export function Tokens() {
  const isShown = useShown();
  if (!may("tokens"))
    return (
      <Empty command="npx millrace token --tenant … --actor … --scopes tokens">
        Your token lacks the scope tokens. Use a token with this scope, or mint one with access to the database:
      </Empty>
    );
  const show = (one: Minted, told: (sentence: ComponentChildren) => void) => {
    if (!isShown.current)
      return tell({ said: `The token of ${one.actor} was created but not shown: revoke it.`, href: hrefOf("settings", "tokens") });
    told(
      <>
        Copy the token of <bdi>{one.actor}</bdi> now. It is not shown again.
        <JsonText text={one.token} label="The token" />
      </>,
    );
  };
  return (
    <List
      at="/v1/tokens"
      head={({ told }) => (
        <div class="settings-bar">
          <p class="quiet">Token values cannot be shown again: only a hash is stored. Expired tokens are listed for 30 days.</p>
          <ActButtons of={[{ ...mint((one) => show(one, told)), class: "main" }]} />
        </div>
      )}
      noun="token"
      columns={COLUMNS}
      empty="This tenant has no token: you signed in with Cloudflare Access. Mint one for a program."
    />
  );
}

const isOwn = ({ id }: Pick<Token, "id">) => session.get().token?.startsWith(`mr_${id}_`) ?? false;
const isOver = ({ expires_at: at }: Token) => at !== null && Date.parse(at) <= timeNow();

const REVOKE = { verb: "Revoke", at: "/v1/tokens/:id", how: "DELETE", class: "plain" } as const;

const COLUMNS: readonly Column<Token>[] = [
  {
    ...{ of: "actor", head: "Holder", width: "1.2fr" },
    cell: (one) => [<bdi key="actor">{one.actor}</bdi>, " ", isOwn(one) && <Quiet key="own" of="this page" />],
  },
  { of: "id", width: "152px", isMinor: true, cell: ({ id }) => <code>{id}</code> },
  { of: "scopes", width: "2fr", isMinor: true, cell: ({ scopes }) => <span title={scopes.join(", ")}>{scopes.join(", ")}</span> },
  { of: "created_at", width: "88px", isNumber: false, isMinor: true },
  {
    ...{ of: "last_used_at", head: "Last used", width: "88px", isNumber: false, isMinor: true },
    cell: ({ last_used_at: at }) => (at ? <Ago at={at} /> : <Quiet of="never" />),
  },
  {
    ...{ of: "expires_at", head: "Expires", width: "104px", isNumber: false },
    cell: ({ expires_at: at }) => (at === null ? "never" : <Ago at={at} />),
  },
  {
    ...{ head: "Action", width: "96px" },
    cell: (one) =>
      isOver(one) ? (
        <Quiet of="expired" />
      ) : (
        <ActButtons of={[{ ...REVOKE, about: one.actor, param: { id: one.id }, label: `Revoke the token of ${one.actor}` }]} />
      ),
  },
];

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

function mint(done: (minted: Minted) => void): Declared {
  const own = session.get().caller?.scopes ?? [];
  const oneOf = own.map((one) => ({ const: one, description: MEANS[one] ?? "a scope of this deployment" }));
  return {
    ...{ verb: "Mint a token", at: "/v1/tokens", fill: { scopes: ["read"] }, done },
    shape: ({ scopes, ...fields }) => ({ ...fields, scopes: { ...scopes, items: { oneOf } } }),
  };
}
