import { useMemo, useState } from "preact/hooks";
import { type Answer, type Item, post, type Result } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import { tell } from "../../data/notices.ts";
import { may, session } from "../../data/session.ts";
import { useList, useShown } from "../../data/use-data.ts";
import { hrefOf } from "../../frame/router.tsx";
import { Act, Check, TextField } from "../../parts/act.tsx";
import { type Asker, Dialog, useActs } from "../../parts/dialog.tsx";
import { Button, Empty } from "../../parts/page.tsx";
import { type Column, TableList } from "../../parts/table.tsx";
import { Ago, clockTime, copied, Icon, Quiet } from "../../parts/text.tsx";

type Token = Item<"/v1/tokens">;
type Minted = Answer<"/v1/tokens", "$post">;

export function Tokens() {
  const pages = useList("/v1/tokens", {});
  const { ask, told, line } = useActs(pages.again);
  const columns = useMemo(() => columnsFor((token) => ask(Revoke, { token })), []);
  const isShown = useShown();
  const show = (one: Minted) => {
    if (!isShown.current)
      return tell({ said: `The token of ${one.actor} was created but not shown: revoke it.`, href: hrefOf("settings", "tokens") });
    ask(Once, { minted: one });
    told(`Minted for ${one.actor}.`);
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
        <Button class="main" press={() => ask(Mint, { done: show, lost: pages.again })}>
          Mint a token
        </Button>
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

function columnsFor(revoke: (token: Token) => void): readonly Column<Token>[] {
  const actionOf = (one: Token) =>
    isOver(one) ? (
      <Quiet of="expired" />
    ) : (
      <Button class="plain" label={`Revoke the token of ${one.actor}`} press={() => revoke(one)}>
        Revoke
      </Button>
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

function Mint({ done, lost, close }: Asker & { done: (minted: Minted) => void; lost: () => void }) {
  const [actor, setActor] = useState("");
  const [days, setDays] = useState("");
  const [isLost, setLost] = useState(false);
  const [scopes, setScopes] = useState<readonly string[]>(["read"]);
  const { scopes: own = [], expires_at: ends = null } = session.get().caller ?? {};
  const wanted = { actor: actor.trim(), scopes, ...(days.trim() && { days: Number(days) }) };
  const missing =
    (isLost && "Close this dialog.") ||
    (wanted.actor === "" && "Enter the holder.") ||
    (scopes.length === 0 && "Choose at least one scope.") ||
    (/\D/.test(days.trim()) && "Days must be a whole number or empty.");
  const mint = async (reason: string): Promise<Result<Minted>> => {
    const sentAt = clockTime(Date.now());
    const result = await post("/v1/tokens", { body: { ...wanted, reason } });
    if (result.ok || (result.problem.code !== "no_answer" && result.problem.status < 500)) return result;
    // The request is not repeated, because a repeated request would mint a second token.
    setLost(true);
    lost();
    const detail = `A token of ${wanted.actor} may have been created at ${sentAt}, but was not shown. Close this dialog. If the list contains it, revoke it and mint another.`;
    return { ok: false, problem: { ...result.problem, detail } };
  };
  return (
    <Act<undefined, Minted>
      title="Mint a token"
      verb="Mint"
      missing={missing}
      body={wanted}
      show={() => (
        <p>
          <bdi>{wanted.actor || "The holder"}</bdi> may {scopes.map((one) => MEANS[one] ?? one).join("; ")},{" "}
          {wanted.days ? `for ${wanted.days} ${wanted.days === 1 ? "day" : "days"}` : "for 90 days, or until your token expires"}. The token
          is shown once.
        </p>
      )}
      act={mint}
      done={done}
      close={close}
    >
      <TextField label="Holder" most={100} value={actor} set={setActor} />
      <fieldset class="settings-scopes">
        <legend>Scopes (at most those of your token)</legend>
        {own.map((one) => (
          <Check
            key={one}
            label={[one, " ", <Quiet key="means" of={MEANS[one] ?? "a scope of this deployment"} />]}
            isSet={scopes.includes(one)}
            set={(isSet) => setScopes(isSet ? [...scopes, one] : scopes.filter((other) => other !== one))}
          />
        ))}
      </fieldset>
      <TextField
        label={[
          "Days until it expires, at most as long as your token",
          ends && <Ago key="ends" label=", which expires" at={ends} />,
          ends && ". For a longer one, sign in with your own token, not with a link",
        ]}
        placeholder="90, or as long as your token"
        value={days}
        set={setDays}
      />
    </Act>
  );
}

function Revoke({ token, ...asker }: Asker & { token: Token }) {
  const [descendants, setDescendants] = useState(false);
  return (
    <Act
      {...asker}
      title={`Revoke the token of ${token.actor}`}
      verb="Revoke"
      final="A revoked token never works again."
      at="/v1/tokens/:id"
      how="DELETE"
      param={{ id: token.id }}
      body={descendants ? { descendants: "true" } : {}}
      show={`${
        isOwn(token)
          ? "This page uses this token: you must sign in with another one."
          : "Requests with this token are refused from then on."
      } If it was used in the last 30 seconds, it may work for up to 30 more seconds. ${
        descendants ? "All tokens minted with it, directly or indirectly, are revoked too." : "Tokens minted with it remain valid."
      }`}
      said={`The token of ${token.actor} is revoked.`}
    >
      <Check label="Also revoke all tokens minted with it" isSet={descendants} set={setDescendants} />
    </Act>
  );
}

function Once({ minted, close }: Asker & { minted: Minted }) {
  const [isCopied, setCopied] = useState(false);
  const [isLeaving, leave] = useState(false);
  return (
    <Dialog title={`The token of ${minted.actor}`} close={() => (isCopied ? close() : leave(true))}>
      <p>Copy the token now. It is not shown again.</p>
      <pre class="settings-minted">{minted.token}</pre>
      <p class="acts">
        <Button class="main" press={async () => setCopied(await copied(minted.token))}>
          {isCopied ? "Copied" : "Copy"}
        </Button>
        <Button press={close}>I have copied it</Button>
      </p>
      {isLeaving && (
        <p class="final" role="alert">
          <Icon name="warning" /> <span>The token is not copied yet and cannot be shown again. Copy it, or confirm that you have it.</span>
        </p>
      )}
    </Dialog>
  );
}
