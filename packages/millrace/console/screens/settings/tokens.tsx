import { useState } from "preact/hooks";
import { type Answer, get, type Item, post, type Result, send } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import { tell } from "../../data/notices.ts";
import { may, session } from "../../data/session.ts";
import { usePages } from "../../data/use-pages.ts";
import { useShown } from "../../data/use-shown.ts";
import { hrefOf } from "../../frame/router.tsx";
import { Act } from "../../parts/act.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Icon } from "../../parts/icon.tsx";
import { copied } from "../../parts/id.tsx";
import { List } from "../../parts/list.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, clockTime } from "../../parts/time.tsx";
import { useTold } from "./told.tsx";

type Token = Item<"/v1/tokens">;
type Minted = Answer<"/v1/tokens", "$post">;

/** Who may call: tokens are minted, listed and revoked. */
export function Tokens() {
  const [asked, ask] = useState<"mint" | Token | undefined>();
  const [minted, setMinted] = useState<Minted | undefined>();
  const pages = usePages((cursor) => get("/v1/tokens", { query: { cursor } }), [], {
    nameOf: ({ id }) => id,
    isAbout: ({ kind, data }) => kind === "action" && /token|mint|revoke/.test(String(data.verb)),
  });
  const { told, line } = useTold(pages.again);
  const isShown = useShown();
  const show = (one: Minted) => {
    if (!isShown.current)
      return tell({ said: `The token of ${one.actor} was made, and nobody has seen it: revoke it.`, href: hrefOf("settings", "tokens") });
    setMinted(one);
    told(`Minted for ${one.actor}.`);
  };
  if (!may("tokens"))
    return (
      <Empty command="npm run token -- mint --scopes tokens …">
        Your token lacks the scope tokens: who has one with it sees and mints them, or whoever can reach the database:
      </Empty>
    );
  return (
    <>
      <div class="settings-bar">
        <p class="quiet">What each is, nobody can read again: only its hash is kept. Those that expired stay for 30 days.</p>
        <button type="button" class="main" onClick={() => ask("mint")}>
          Mint a token
        </button>
      </div>
      {line}
      <List
        pages={pages}
        noun={["token", "tokens"]}
        empty={<Empty>There is none in this tenant: you came by Cloudflare Access. Mint one for a program.</Empty>}
      >
        {(rows) => <Table label="Tokens" rows={rows} columns={columns(ask)} nameOf={({ id }) => id} />}
      </List>
      {asked === "mint" && <Mint done={show} lost={pages.again} close={() => ask(undefined)} />}
      {typeof asked === "object" && (
        <Revoke token={asked} done={() => told(`The token of ${asked.actor} is revoked.`)} close={() => ask(undefined)} />
      )}
      {minted && <Once minted={minted} close={() => setMinted(undefined)} />}
    </>
  );
}

const isOwn = ({ id }: Pick<Token, "id">) => session.get().token?.startsWith(`mr_${id}_`) ?? false;
const isOver = ({ expires_at: at }: Token) => at !== null && Date.parse(at) <= timeNow();

function columns(ask: (token: Token) => void): readonly Column<Token>[] {
  return [
    {
      head: "Holder",
      width: "1.2fr",
      cell: (one) => (
        <>
          <bdi>{one.actor}</bdi> {isOwn(one) && <span class="quiet">this page</span>}
        </>
      ),
    },
    { head: "Id", width: "152px", isMinor: true, cell: ({ id }) => <code>{id}</code> },
    { head: "Scopes", width: "2fr", isMinor: true, cell: ({ scopes }) => <span title={scopes.join(", ")}>{scopes.join(", ")}</span> },
    { head: "Made", width: "88px", isMinor: true, cell: ({ created_at }) => <Ago at={created_at} /> },
    {
      head: "Last used",
      width: "88px",
      isMinor: true,
      cell: ({ last_used_at: at }) => (at ? <Ago at={at} /> : <span class="quiet">never</span>),
    },
    {
      head: "Ends",
      width: "104px",
      narrow: "88px",
      cell: (one) => (one.expires_at === null ? "never" : <Ago at={one.expires_at} />),
    },
    {
      head: "Act",
      width: "96px",
      cell: (one) =>
        isOver(one) ? (
          <span class="quiet">over</span>
        ) : (
          <button type="button" class="plain" aria-label={`Revoke the token of ${one.actor}`} onClick={() => ask(one)}>
            Revoke
          </button>
        ),
    },
  ];
}

const MEANS: Readonly<Record<string, string>> = {
  enqueue: "send commands and events",
  read: "see everything of the tenant",
  operate: "act: retry, undo, answer",
  unattributed: "see what names no tenant",
  tokens: "mint and revoke tokens",
  pull: "take from pull queues",
  embedded: "steer the stand-ins of a development engine",
  observe: "see the deployment's health",
  reveal: "see what is withheld",
};

interface MintProps {
  done: (minted: Minted) => void;
  /** No answer came: asked for again, it would be another token. */
  lost: () => void;
  close: () => void;
}

function Mint({ done, lost, close }: MintProps) {
  const [actor, setActor] = useState("");
  const [days, setDays] = useState("");
  const [isLost, setLost] = useState(false);
  const [scopes, setScopes] = useState<readonly string[]>(["read"]);
  const { scopes: own = [], expires_at: ends = null } = session.get().caller ?? {};
  const wanted = { actor: actor.trim(), scopes, ...(days.trim() && { days: Number(days) }) };
  const isReady = !isLost && wanted.actor !== "" && scopes.length > 0 && /^\s*\d*\s*$/.test(days);
  const mint = async (reason: string): Promise<Result<Minted>> => {
    const sentAt = clockTime(Date.now());
    const result = await post("/v1/tokens", { body: { ...wanted, reason } });
    if (result.ok || (result.problem.code !== "no_answer" && result.problem.status < 500)) return result;
    setLost(true);
    lost();
    const detail = `A token of ${wanted.actor} may have been made at ${sentAt}, and nobody has seen it. Close this: where the list has it, revoke it, and mint another.`;
    return { ok: false, problem: { ...result.problem, detail } };
  };
  return (
    <Act<undefined, Minted>
      title="Mint a token"
      verb="Mint"
      isReady={isReady}
      missing={
        wanted.actor === ""
          ? "Say who will hold it."
          : scopes.length === 0
            ? "Say what it may do: at least one of these."
            : "The days are a whole number, or nothing."
      }
      depends={[actor, days, scopes]}
      show={() => (
        <p>
          <bdi>{wanted.actor || "Somebody"}</bdi> may {scopes.map((one) => MEANS[one] ?? one).join("; ")},{" "}
          {wanted.days ? `for ${wanted.days} ${wanted.days === 1 ? "day" : "days"}` : "for 90 days, or as long as yours"}. It is shown once.
        </p>
      )}
      act={mint}
      done={done}
      close={close}
    >
      <label class="field">
        Who will hold it
        <input type="text" autocomplete="off" maxLength={100} value={actor} onInput={(event) => setActor(event.currentTarget.value)} />
      </label>
      <fieldset class="settings-scopes">
        <legend>What it may do, of what yours may</legend>
        {own.map((one) => (
          <label key={one} class="check">
            <input
              type="checkbox"
              checked={scopes.includes(one)}
              onChange={() => setScopes(scopes.includes(one) ? scopes.filter((other) => other !== one) : [...scopes, one])}
            />{" "}
            <span>
              {one} <span class="quiet">{MEANS[one] ?? "what this deployment alone asks for"}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <label class="field">
        <span>
          Days that it works; no token outlives the one that mints it
          {ends && (
            <>
              , and yours ends <Ago at={ends} />: for a longer one sign in with your own token, not by a link
            </>
          )}
        </span>
        <input
          type="text"
          inputMode="numeric"
          placeholder="90, or as long as yours"
          value={days}
          onInput={(event) => setDays(event.currentTarget.value)}
        />
      </label>
    </Act>
  );
}

function Revoke({ token, done, close }: { token: Token; done: () => void; close: () => void }) {
  const [descendants, setDescendants] = useState(false);
  return (
    <Act<undefined, unknown>
      title={`Revoke the token of ${token.actor}`}
      verb="Revoke it"
      final="It is final: a token that is revoked never works again."
      depends={[descendants]}
      show={() => (
        <p>
          {isOwn(token)
            ? "It is the one that this page uses: you will be asked for another. "
            : "Whoever uses it is refused from then on. "}
          Where it was used in the last 30 seconds, it may work for as long once more.{" "}
          {descendants ? "All that it minted, and what these minted, end with it." : "Tokens that it minted go on."}
        </p>
      )}
      act={(reason) =>
        send("DELETE", "/v1/tokens/:id", { param: { id: token.id }, query: { reason, ...(descendants && { descendants: "true" }) } })
      }
      done={done}
      close={close}
    >
      <label class="check">
        <input type="checkbox" checked={descendants} onChange={() => setDescendants(!descendants)} /> Also all that come from it
      </label>
    </Act>
  );
}

/** A new token, shown once: it is in no list, and in no storage of the browser. */
function Once({ minted, close }: { minted: Minted; close: () => void }) {
  const [isCopied, setCopied] = useState(false);
  const [isLeaving, leave] = useState(false);
  return (
    <Dialog title={`The token of ${minted.actor}`} close={() => (isCopied ? close() : leave(true))}>
      <p>Copy it now: it is said here and never again.</p>
      <pre class="settings-minted">{minted.token}</pre>
      <p class="acts">
        <button type="button" class="main" onClick={async () => setCopied(await copied(minted.token))}>
          {isCopied ? "Copied" : "Copy"}
        </button>
        <button type="button" onClick={close}>
          I have it
        </button>
      </p>
      {isLeaving && (
        <p class="final" role="alert">
          <Icon name="warning" /> <span>You have not copied it. Nobody can show it again: copy it, or say that you have it.</span>
        </p>
      )}
    </Dialog>
  );
}
