import { useEffect } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import { Icon } from "../parts/icon.tsx";
import { remembered } from "./remembered.ts";

const theme = remembered<"system" | "light" | "dark">("theme", "system");
const NEXT = { system: "dark", dark: "light", light: "system" } as const;

export function turnTheme(): void {
  theme.set(NEXT[theme.get()]);
}

export function ThemeButton() {
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
