/**
 * `npm run docs:tables`: writes the generated tables of the guides into docs/*.md (docs/reference.mjs says which). The pages are
 * committed; a test compares them.
 *
 *   node vendor/build-reference.mjs [FOLDER]     the pages of another folder: for tests
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fillPage } from './docs/reference.mjs'

const folder = path.resolve(process.argv[2] ?? path.resolve(import.meta.dirname, '..', 'docs'))
for (const name of readdirSync(folder).filter((one) => one.endsWith('.md'))) {
  const file = path.join(folder, name)
  const text = readFileSync(file, 'utf8')
  const filled = await fillPage(text)
  if (filled !== text) writeFileSync(file, filled)
}
