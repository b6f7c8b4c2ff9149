/**
 * Part of `npm run build`: src/apps/browser to dist/browser, what pages send records with. A script for a tag, a module, each
 * beside its .br and .gz, and the module's types.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import ts from 'typescript'

const root = path.resolve(import.meta.dirname, '..')
const from = path.join(root, 'src', 'apps', 'browser')
const to = path.join(root, 'dist', 'browser')
const options = { bundle: true, minify: true, target: 'es2018', charset: 'utf8', logLevel: 'warning' }

mkdirSync(to, { recursive: true })
await make('script.ts', 'iife', 'pipectl.js')
await make('pipectl.ts', 'esm', 'pipectl.mjs')
const source = readFileSync(path.join(from, 'pipectl.ts'), 'utf8')
const { outputText } = ts.transpileDeclaration(source, { fileName: 'pipectl.ts' })
writeFileSync(path.join(to, 'pipectl.d.mts'), outputText)

async function make(entry, format, name) {
  const outfile = path.join(to, name)
  await build({ ...options, entryPoints: [path.join(from, entry)], format, outfile })
  const bytes = readFileSync(outfile)
  writeFileSync(`${outfile}.gz`, gzipSync(bytes, { level: 9 }))
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  writeFileSync(`${outfile}.br`, brotliCompressSync(bytes, { params: quality }))
}
