import type { ComponentChildren } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import { clock } from "../data/clock.ts";
import { isPaused, live, pause } from "../data/live.ts";
import { needed, notices, takeAway } from "../data/notices.ts";
import { remembered } from "../data/remembered.ts";
import { session, signOut } from "../data/session.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Check } from "../parts/form.tsx";
import { Button, Lines } from "../parts/page.tsx";
import { Icon, LOCAL_ZONE, rounded, timeZone, useWidth, zone } from "../parts/text.tsx";
import { SCREENS, screenAt } from "../screens/index.ts";
import { go, hrefOf, isSheetShown, Link, type Place, singleKeys, useKeys, usePlace } from "./router.tsx";
import { Search } from "./search.tsx";
import { SignInAgain } from "./sign-in.tsx";

const GOES = Object.fromEntries(SCREENS.flatMap(({ key, path }) => (key ? [[`g ${key}`, () => go(hrefOf(path))]] : [])));

export function Shell() {
  const place = usePlace();
  const { state, caller } = useCell(session);
  const { component: Screen, title, param, current } = screenAt(place.path);
  const navigation = useRef<HTMLElement>(null);
  useKeys({ ...GOES, "?": () => isSheetShown.set(true), p: turnLive, t: turnTheme });
  const waiting = useCell(needed);
  const isUtc = useCell(zone) === "utc";
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title} · Millrace`;
  }, [title, waiting]);
  // The navigation scrolls in a narrow window. The current entry is kept visible, without `scrollIntoView`, which changes the element that
  // the next Tab key focuses.
  const width = useWidth(navigation);
  useEffect(() => {
    const entry = navigation.current?.querySelector<HTMLElement>("[aria-current]");
    if (entry && navigation.current) navigation.current.scrollLeft = entry.offsetLeft - (width - entry.offsetWidth) / 2;
  }, [current, width]);
  // A navigation removes the focused link or field: then the focus moves to the new screen.
  const at = place.path.join("/");
  const before = useRef(at);
  useEffect(() => {
    if (before.current !== at && document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
    before.current = at;
  }, [at]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the screen
      </a>
      <header>
        <p class="who">
          <Link to={hrefOf()}>millrace</Link>{" "}
          <span title={`${caller?.actor ?? ""}: ${caller?.scopes.join(", ") ?? ""}`}>{caller?.tenant}</span>
        </p>
        <Search />
        <div class="tools">
          <LiveDot />
          <ThemeButton />
          <button type="button" class="plain" onClick={() => isSheetShown.set(true)} title="Keys (?)" aria-label="Keys">
            ?
          </button>
          <button type="button" class="plain" onClick={signOut} title="Forget the token">
            Sign out
          </button>
        </div>
        <nav aria-label="Screens" ref={navigation}>
          {SCREENS.filter(({ under }) => under === undefined).map((one) => (
            <Link key={one.path} to={hrefOf(one.path)} aria-current={current === one.path ? "page" : undefined}>
              {one.title}
            </Link>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1}>
        {/* With this key, the screen starts with a new state when the object, the tenant or the scopes change. */}
        <Boundary key={`${caller?.tenant} ${caller?.scopes.join(" ")} ${place.path.join(" ")}`} at={place}>
          <Screen param={param} />
        </Boundary>
      </main>
      <footer class="quiet">
        Time zone: {timeZone()}.
        {LOCAL_ZONE !== "UTC" && <Check label="Show times in UTC" isSet={isUtc} set={(isSet) => zone.set(isSet ? "utc" : "local")} />}
      </footer>
      <Notices />
      <KeySheet />
      {state === "again" && <SignInAgain />}
    </>
  );
}

const WORDS = { connecting: "connecting", live: "live", paused: "paused", hidden: "resting", off: "no connection" } as const;

function turnLive(): void {
  pause(!isPaused());
}

function LiveDot() {
  const { state, heardAt, behindSince } = useCell(live);
  const now = useCell(clock);
  const asOf = behindSince === 0 ? heardAt : Math.min(heardAt, behindSince);
  const age = heardAt === 0 ? "" : rounded(Math.max(0, now - asOf));
  return (
    <button type="button" class="plain live" data-state={state} onClick={turnLive} title={`${state === "paused" ? "Resume" : "Pause"} (p)`}>
      <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
        {state === "paused" ? <path d="M2 1h2v8H2zM6 1h2v8H6z" /> : <circle cx="5" cy="5" r={state === "live" ? 4 : 3} />}
      </svg>
      {WORDS[state]} <span class="age">{age}</span>
    </button>
  );
}

const theme = remembered<"system" | "light" | "dark">("theme", "system");
const NEXT = { system: "dark", dark: "light", light: "system" } as const;

function turnTheme(): void {
  theme.set(NEXT[theme.get()]);
}

function ThemeButton() {
  const now = useCell(theme);
  useEffect(() => {
    if (now === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = now;
  }, [now]);
  return (
    <button
      type="button"
      class="plain"
      onClick={turnTheme}
      title={`Colours: ${now}. Change to ${NEXT[now]} (t)`}
      aria-label={`Colours: ${now}`}
    >
      <Icon name={now} />
    </button>
  );
}

function Notices() {
  const shown = useCell(notices);
  return (
    <div class="notices" role="status">
      {shown.map((notice) => (
        <p key={notice}>
          <span>
            {notice.said}{" "}
            {notice.href !== undefined && (
              <Link to={notice.href} onClickCapture={() => takeAway(notice)}>
                Show it
              </Link>
            )}
          </span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => takeAway(notice)}>
            <Icon name="close" />
          </button>
        </p>
      ))}
    </div>
  );
}

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search by any id or key"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["[ ]", "previous and next step"],
  ["p", "pause or resume live updates"],
  ["c", "copy the id"],
  ["t", "light or dark"],
  ["Esc", "close the dialog"],
  ["Ctrl+Enter", "confirm an action"],
  ["?", "show this list"],
];

function KeySheet() {
  const isShown = useCell(isSheetShown);
  const setting = useCell(singleKeys);
  if (!isShown) return null;
  const goes = SCREENS.flatMap(({ key, title }) => (key ? [[`g ${key}`, `go to ${title}`] as const] : []));
  return (
    <Dialog title="Keys" close={() => isSheetShown.set(false)}>
      <div class="keys">
        <Lines
          columns="104px 1fr"
          of={[...goes, ...KEYS].map(([keys, does]) => [keys.split(" ").map((one) => <kbd key={one}>{one}</kbd>), does])}
        />
      </div>
      <Check label="Single-key shortcuts" isSet={setting === "on"} set={(isSet) => singleKeys.set(isSet ? "on" : "off")} />
    </Dialog>
  );
}

/** Shows a screen. If the screen throws, shows the error until the user goes to another place or tries again. */
function Boundary({ at, children }: { at: Place; children: ComponentChildren }) {
  const [failedAt, failAt] = useState<Place | undefined>();
  const [error, tryAgain] = useErrorBoundary((thrown) => {
    console.error(thrown);
    failAt(at);
  });
  if (error === undefined || failedAt !== at) return <>{children}</>;
  return (
    <>
      <h1>This screen cannot be shown</h1>
      <div class="problem" role="alert">
        <p>
          <strong>The data has an unexpected form.</strong> Nothing was changed. Text that you typed here is lost. The other screens work.
        </p>
        <p>
          If this happens again, reload the page: the engine may be newer than the page. <bdi>{String(error)}</bdi>
        </p>
      </div>
      <p class="acts">
        <Button class="main" press={tryAgain}>
          Try again
        </Button>
        <Link to="/console">To Now</Link>
      </p>
    </>
  );
}
