/**
 * Part of `npm run build`: the guides of docs/ to dist/docs as pages that load nothing from elsewhere. Their one script
 * adds what a page does without: search, copy buttons and the menu of small screens.
 * Links that lead nowhere end the build, each with its file.
 *
 *   node vendor/build-docs.mjs [ROOT [TARGET]]     other guides, elsewhere: for tests
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const { buildSite } = await import('./docs/site.mjs').catch((error) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  process.stderr.write('marked is not installed, or not in the version of package.json: run npm install.\n')
  process.exit(1)
})

const own = path.resolve(import.meta.dirname, '..')
const root = path.resolve(process.argv[2] ?? own)
const target = path.resolve(process.argv[3] ?? path.join(own, 'dist', 'docs'))

const { files, problems } = buildSite(root)
if (problems.length > 0) {
  process.stderr.write(problems.map((line) => `${line}\n`).join(''))
  process.exit(1)
}
const read = (...names) => readFileSync(path.join(own, ...names))
// The colours of the dashboard, and its icon.
files.set('docs.css', Buffer.concat([read('src/apps/dashboard/ui/tokens.css'), read('vendor/docs/docs.css')]))
files.set('docs.js', read('vendor/docs/docs.js'))
files.set('favicon.svg', read('src/apps/dashboard/favicon.svg'))
rmSync(target, { recursive: true, force: true })
for (const [name, content] of files) {
  const file = path.join(target, name)
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, content)
}
