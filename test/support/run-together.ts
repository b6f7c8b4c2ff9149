/**
 * Runs several test files in this process: those that the environment names (TEST_FILES; paths of the working directory).
 * Arguments would become part of the names of the test directories, which would be too long.
 */
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

// The tests of the files wait for this one to end. Without it tap would end between two imports, once the tests of the
// first files are done, and leave out the tests of all others without a word.
t.test('the files are loaded', async (t) => {
  for (const file of process.env.TEST_FILES!.split(' ')) await import(pathToFileURL(path.resolve(file)).href)
  t.pass()
})
