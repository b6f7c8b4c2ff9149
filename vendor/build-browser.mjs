/**
 * Part of `npm run build`: sdk/js/src, with which applications send records, in two forms.
 *
 *   dist/browser   what the daemon serves: a script for a tag, a module, each next to its .br and .gz, and the module's types
 *   sdk/js/dist    the package for the registry: one file for browsers, one for Node.js, and their types
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import ts from 'typescript'

const root = path.resolve(import.meta.dirname, '..')
const sdk = path.join(root, 'sdk', 'js')
const from = path.join(sdk, 'src')
const served = path.join(root, 'dist', 'browser')
const packed = path.join(sdk, 'dist')
const common = { bundle: true, charset: 'utf8', logLevel: 'warning' }
const forPages = { ...common, minify: true, target: 'es2018' }

// Each file in the folder is packed, also one of an earlier build.
rmSync(packed, { recursive: true, force: true })
for (const folder of [served, packed]) mkdirSync(folder, { recursive: true })
await serve('script.ts', 'iife', 'pipectl.js')
await serve('pipectl.ts', 'esm', 'pipectl.mjs')
// One file: a page that loads the module by its address finds no others.
const shared = typesOf('types')
const own = ['browser', 'pipectl'].map((name) =>
  typesOf(name).replace(/^(import|export type \*|export \{).*\n/gm, ''),
)
writeFileSync(path.join(served, 'pipectl.d.mts'), [shared, ...own].join('\n'))

await bundle('browser', { ...forPages, format: 'esm' })
await bundle('node', { ...common, format: 'esm', platform: 'node', target: 'node20' })
for (const name of ['types', 'browser', 'node'])
  writeFileSync(path.join(packed, `${name}.d.ts`), typesOf(name))
copyFileSync(path.join(root, 'LICENSE'), path.join(sdk, 'LICENSE'))

async function serve(entry, format, name) {
  const outfile = path.join(served, name)
  await build({ ...forPages, entryPoints: [path.join(from, entry)], format, outfile })
  const bytes = readFileSync(outfile)
  writeFileSync(`${outfile}.gz`, gzipSync(bytes, { level: 9 }))
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  writeFileSync(`${outfile}.br`, brotliCompressSync(bytes, { params: quality }))
}

async function bundle(name, options) {
  await build({
    ...options,
    entryPoints: [path.join(from, `${name}.ts`)],
    outfile: path.join(packed, `${name}.js`),
  })
}

/** Returns the declarations of a source; its imports name the outputs. */
function typesOf(name) {
  const source = readFileSync(path.join(from, `${name}.ts`), 'utf8')
  const { outputText } = ts.transpileDeclaration(source, { fileName: `${name}.ts` })
  return outputText.replace(/(from '\.\/\w+)\.ts'/g, "$1.js'")
}
