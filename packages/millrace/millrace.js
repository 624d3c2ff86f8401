#!/usr/bin/env node
// The command `millrace`: of the sources in the repository, of dist in the package, which holds no sources.
import { existsSync } from "node:fs";

const isSource = existsSync(new URL("./cli/launch.js", import.meta.url));
await import(isSource ? "./cli/launch.js" : "./dist/cli/launch.js");
