/** Runs several test files in this process: `node dist-test/support/run-together.js FILE …`. Paths are of the working directory. */
import path from 'node:path'
import { pathToFileURL } from 'node:url'

for (const file of process.argv.slice(2)) await import(pathToFileURL(path.resolve(file)).href)
