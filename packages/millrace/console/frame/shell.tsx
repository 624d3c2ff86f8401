import { useEffect, useRef } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import { session, signOut } from "../data/session.ts";
import { LOCAL_ZONE, timeZone, zone } from "../parts/time.tsx";
import { SCREENS, screenAt } from "../screens/index.ts";
import { Boundary } from "./boundary.tsx";
import { KeySheet } from "./key-sheet.tsx";
import { isSheetShown, useKeys } from "./keys.ts";
import { LiveDot, turnLive } from "./live-dot.tsx";
import { needed } from "./needed.ts";
import { Notices } from "./notices.tsx";
import { go, hrefOf, Link, usePlace } from "./router.tsx";
import { Search } from "./search.tsx";
import { SignInAgain } from "./sign-in.tsx";
import { ThemeButton, turnTheme } from "./theme.tsx";

const GOES = Object.fromEntries(SCREENS.flatMap(({ key, path }) => (key ? [[`g ${key}`, () => go(hrefOf(path))]] : [])));

export function Shell() {
  const place = usePlace();
  const { state, caller } = useCell(session);
  const { screen, param } = screenAt(place.path);
  const navigation = useRef<HTMLElement>(null);
  useKeys({ ...GOES, "?": () => isSheetShown.set(true), p: turnLive, t: turnTheme });
  const waiting = useCell(needed);
  const isUtc = useCell(zone) === "utc";
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${screen.title} · Millrace`;
  }, [screen, waiting]);
  // The navigation scrolls in a narrow window. The current entry is kept visible, and the sides with hidden entries are marked.
  const mark = () => {
    const { scrollLeft = 0, clientWidth = 0, scrollWidth = 0, parentElement } = navigation.current ?? {};
    parentElement?.toggleAttribute("data-left", scrollLeft > 1);
    parentElement?.toggleAttribute("data-right", scrollLeft + clientWidth < scrollWidth - 1);
  };
  useEffect(() => {
    const look = () => {
      const current = navigation.current?.querySelector<HTMLElement>("[aria-current]");
      if (current && navigation.current) navigation.current.scrollLeft = current.offsetLeft - (innerWidth - current.offsetWidth) / 2;
      mark();
    };
    look();
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, [screen]);
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
        <div class="screens">
          <nav aria-label="Screens" ref={navigation} onScroll={mark}>
            {SCREENS.filter(({ isInNavigation }) => isInNavigation).map((one) => (
              <Link key={one.name} to={hrefOf(one.path)} aria-current={(screen.under ?? screen.name) === one.name ? "page" : undefined}>
                {one.title}
              </Link>
            ))}
          </nav>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {/* With this key, the screen starts with a new state when the object, the tenant or the scopes change. */}
        <Boundary key={`${caller?.tenant} ${caller?.scopes.join(" ")} ${screen.name} ${param ?? ""}`} at={place}>
          <screen.component param={param ?? ""} />
        </Boundary>
      </main>
      <footer class="quiet">
        Time zone: {timeZone()}.
        {LOCAL_ZONE !== "UTC" && (
          <label class="check">
            <input type="checkbox" checked={isUtc} onChange={() => zone.set(isUtc ? "local" : "utc")} /> Show times in UTC
          </label>
        )}
      </footer>
      <Notices />
      <KeySheet />
      {state === "again" && <SignInAgain />}
    </>
  );
}
