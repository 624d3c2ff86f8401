import { useEffect } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import { session, signOut } from "../data/session.ts";
import { SCREENS, screenAt } from "../screens/index.ts";
import { KeySheet } from "./key-sheet.tsx";
import { isSheetShown, useKeys } from "./keys.ts";
import { LiveDot, turnLive } from "./live-dot.tsx";
import { go, hrefOf, Link, usePlace } from "./router.tsx";
import { Search } from "./search.tsx";
import { SignInAgain } from "./sign-in.tsx";
import { ThemeButton, turnTheme } from "./theme.tsx";

const GOES = Object.fromEntries(SCREENS.flatMap(({ key, path }) => (key ? [[`g ${key}`, () => go(hrefOf(path))]] : [])));

/** What stands around every screen. */
export function Shell() {
  const { path } = usePlace();
  const { state, caller } = useCell(session);
  const { screen, param } = screenAt(path);
  useKeys({ ...GOES, "?": () => isSheetShown.set(true), p: turnLive, t: turnTheme });
  useEffect(() => {
    document.title = `${screen.title} · Millrace`;
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
        <nav aria-label="Screens">
          {SCREENS.filter(({ isInNavigation }) => isInNavigation).map((one) => (
            <Link key={one.name} to={hrefOf(one.path)} aria-current={(screen.under ?? screen.name) === one.name ? "page" : undefined}>
              {one.title}
            </Link>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1}>
        {/* Another thing is another screen, also of the same kind. */}
        <screen.component key={`${screen.name} ${param ?? ""}`} param={param ?? ""} />
      </main>
      <KeySheet />
      {state === "again" && <SignInAgain />}
    </>
  );
}
