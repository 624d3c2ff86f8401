import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { basename, dirname, join } from "node:path";
import type { Browser, BrowserServer, LaunchOptions } from "playwright-core";

/** No background activity, and no name lookups: a page's content comes from the test alone. */
const ARGS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  ...["--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND"],
];

/** A monospaced font with arrows: the package's own fonts have no such font. */
const MONO = ["400Regular/FiraMono_400Regular.ttf", "700Bold/FiraMono_700Bold.ttf"];
/** Only fonts of npm packages, so that a page has the same width on every machine. */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <alias binding="same"><family>monospace</family><prefer><family>Fira Mono</family></prefer></alias>
  <match target="pattern"><edit name="family" mode="append_last" binding="weak"><string>Open Sans</string></edit></match>
</fontconfig>
`;

/**
 * Starts a Chromium that npm installed, with its libraries and fonts: it needs nothing of the machine beyond Node's requirements. It is
 * built for Linux on x64; elsewhere the installed Chrome is used.
 */
export async function startChrome(): Promise<Browser> {
  const { chromium } = await import("playwright-core");
  return chromium.launch(await options());
}

/** Starts a Chromium for several test processes, which connect to it, with pages that an engine on this machine serves. */
export async function serveChrome(): Promise<BrowserServer> {
  const { chromium } = await import("playwright-core");
  const { args = [], ...rest } = await options();
  const ours = args.map((arg) => (arg.startsWith("--host-resolver-rules") ? `${arg}, EXCLUDE localhost` : arg));
  return chromium.launchServer({ ...rest, args: ours, host: "127.0.0.1" });
}

async function options(): Promise<LaunchOptions> {
  if (process.platform !== "linux" || process.arch !== "x64") return { channel: "chrome", args: ARGS };
  const folder = await unpacked();
  const env = { LD_LIBRARY_PATH: join(folder, "al2023/lib"), FONTCONFIG_FILE: join(folder, "fonts/fonts.conf"), HOME: folder };
  return { executablePath: join(folder, "chromium"), args: ARGS, env };
}

/** The folder of the browser and its fonts, created once per pair of versions. Two concurrent processes both use the first result. */
async function unpacked(): Promise<string> {
  const { home, version } = installed("@sparticuz/chromium");
  const mono = installed("@expo-google-fonts/fira-mono");
  const cache = join(import.meta.dirname, "../../../node_modules/.cache");
  const folder = join(cache, `chromium-${version}-fira-mono-${mono.version}`);
  if (existsSync(folder)) return folder;

  mkdirSync(cache, { recursive: true });
  const making = mkdtempSync(`${folder}-`);
  // The package unpacks into the current folder for temporary files.
  const temporary = process.env.TMPDIR;
  process.env.TMPDIR = making;
  try {
    const { inflate } = await import("@sparticuz/chromium");
    await Promise.all(["chromium.br", "al2023.tar.br", "fonts.tar.br"].map((name) => inflate(join(home, "bin", name))));
  } finally {
    if (temporary === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = temporary;
  }
  writeFileSync(join(making, "fonts/fonts.conf"), FONTS);
  for (const file of MONO) copyFileSync(join(mono.home, file), join(making, "fonts/fonts", basename(file)));
  try {
    renameSync(making, folder);
  } catch (error) {
    rmSync(making, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

/** The folder and version of an installed package. */
function installed(name: string): { home: string; version: string } {
  const home = dirname(findPackageJSON(name, import.meta.url) ?? "");
  return { home, version: JSON.parse(readFileSync(join(home, "package.json"), "utf8")).version };
}
