/** Runs several test files in this process: `node dist-test/support/run-together.js FILE …`. Paths are of the working directory. */
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

// The tests of the files wait for this one to end. Without it tap would end between two imports, once the tests of the
// first files are done, and leave out the tests of all others without a word.
t.test('the files are loaded', async (t) => {
  for (const file of process.argv.slice(2)) await import(pathToFileURL(path.resolve(file)).href)
  t.pass()
})
