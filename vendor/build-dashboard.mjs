/**
 * Part of `npm run build`: src/apps/dashboard to dist/dashboard, each file beside its .br and .gz, so that the daemon compresses
 * nothing while it serves. What is newer than its sources is left as it is.
 */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

const root = path.resolve(import.meta.dirname, '..')
const target = path.join(root, 'dist', 'dashboard')
const page = path.join(target, 'index.html.br')
/** The sources of its bundle: its own, those that it shares with the other clients, programs that it shows, and the packages. */
const sources = [
  'src/apps/dashboard',
  'src/apps/client',
  'src/contract',
  'examples/send-one',
  'src/platform/quantities.ts',
  'package-lock.json',
  'vendor',
]

if (!isUpToDate()) {
  const { build } = await import('vite').catch((error) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    process.stderr.write('vite is not installed, or not in the version of package.json: run npm install.\n')
    process.exit(1)
  })
  await build({ configFile: path.join(import.meta.dirname, 'dashboard.vite.mjs') })
  const files = filesBelow(target)
  // The page comes last: its .br says that all of it was made.
  for (const file of files.filter((one) => !isPage(one))) compress(file)
  for (const file of files.filter(isPage)) compress(file)
}

function isPage(file) {
  return file.endsWith('.html')
}

function isUpToDate() {
  const made = statSync(page, { throwIfNoEntry: false })?.mtimeMs ?? 0
  return sources
    .flatMap((name) => filesBelow(path.join(root, name)))
    .every((file) => statSync(file).mtimeMs < made)
}

function filesBelow(place) {
  if (statSync(place).isFile()) return [place]
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
}

function compress(file) {
  const bytes = readFileSync(file)
  writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }))
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: quality }))
}
