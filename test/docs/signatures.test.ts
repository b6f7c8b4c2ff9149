/** docs/signatures.md shows the receivers of examples/verify-signature as they are: those are what is tested. */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { blocksOf } from '../support/guide-walker.ts'

const folder = new URL('../../examples/verify-signature/', import.meta.url)

t.test('every receiver is on the page, to the character', async (t) => {
  const page = readFileSync(new URL('../../docs/signatures.md', import.meta.url), 'utf8')
  const shown = new Map(blocksOf(page).map(({ options, text }) => [options.file, text]))
  const files = readdirSync(folder)
  t.ok(files.length >= 4)
  for (const file of files) t.equal(shown.get(file), readFileSync(new URL(file, folder), 'utf8'), file)
})
