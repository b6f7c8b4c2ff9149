/**
 * Makes the program of a package: src/ and the npm packages it uses, without what nothing calls, in a few hundred files.
 *
 * Each thread is an entry of its own, and what is imported when it is needed (a destination's driver, the terminal
 * interface) stays a file of its own. Only packages with a native part stay packages: see `external`.
 *
 *   dist/apps/cli/main.js, dist/daemon/threads/delivery-thread.js …   the entries, where `npm run build` has them too
 *   dist/chunks/NAME-HASH.js                               the rest
 *   dist/pino-pretty.cjs                                   loaded with require(), in the middle of a synchronous function
 *
 * A module that asks for its own place (`import.meta.url`) is told the one it has after `npm run build`.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'
import { exportsOf } from './exports-of.mjs'

const root = path.resolve(import.meta.dirname, '..')
const src = path.join(root, 'src')
/**
 * Where the bundler believes that it writes. The names of chunks depend on the way from there to the sources: with the folder of
 * the package, two checkouts would make different files.
 */
const bundled = path.join(root, 'dist')
/** Stay in node_modules. */
export const external = ['better-sqlite3', 'uWebSockets.js']
/** Packages that others ask for and do without. */
const absent = ['pg-native']
/** They ask for their own place where we do not go, or do without: worker threads of pino, the name of a stack's line. */
const placeless = [
  ...['pino/lib/transport.js', 'thread-stream/index.js', 'undici/index.js'],
  // The WebAssembly is in its text.
  'yoga-layout/dist/binaries/yoga-wasm-base64-esm.js',
  // See keepZstd.
  '@bokuweb/zstd-wasm/dist/common/index.node.js',
  // With DEV=true.
  'ink/build/reconciler.js',
]

/** CommonJS modules ask for Node's own, and for the external ones, in their own way. */
const requireLines =
  "import { createRequire as makeRequire } from 'node:module'\nconst require = makeRequire(import.meta.url)"

const common = {
  absWorkingDir: root,
  bundle: true,
  write: false,
  metafile: true,
  logLevel: 'warning',
  platform: 'node',
  target: 'node20',
  external: [...external, ...absent],
  // The development messages of React and Ink take them a third of their time.
  define: { 'process.env.NODE_ENV': '"production"', 'process.env.DEV': '"false"' },
  // For a checkout, where it is not a constant, `pipectl top` sets it.
  logOverride: { 'assign-to-define': 'silent' },
  // Their texts are in THIRD-PARTY-LICENSES.
  legalComments: 'none',
  // Node keeps the text of each module in memory, in every thread that loads it. Lines stay: they are in stack traces.
  minifyWhitespace: true,
  lineLimit: 120,
}

/**
 * Writes below `stage`. Returns the files and folders of the root that the program reads, and the modules it is made of,
 * both relative to the root.
 */
export async function bundleProgram(stage) {
  const assets = new Set()
  const program = await build({
    ...common,
    entryPoints: entryPoints(),
    outbase: src,
    outdir: bundled,
    chunkNames: 'chunks/[name]-[hash]',
    splitting: true,
    format: 'esm',
    jsx: 'automatic',
    // Read with NODE_OPTIONS=--enable-source-maps alone: a stack's lines are those of src/ then.
    sourcemap: 'linked',
    sourcesContent: false,
    // Modules before CommonJS: of those, what nothing uses can be left out.
    mainFields: ['module', 'main'],
    banner: { js: requireLines },
    plugins: [
      { name: 'places', setup: (build) => keepPlaces(build, assets) },
      { name: 'names', setup: keepNamesOfPackages },
      { name: 'zstd', setup: keepZstd },
      { name: 'devtools', setup: leaveOutDevtools },
    ],
  })
  const pretty = await build({
    ...common,
    entryPoints: ['pino-pretty'],
    outfile: path.join(bundled, 'pino-pretty.cjs'),
    format: 'cjs',
  })
  for (const file of [...program.outputFiles, ...pretty.outputFiles]) {
    const place = path.relative(root, file.path)
    const isMap = place.endsWith('.map')
    const target = path.join(stage, place)
    mkdirSync(path.dirname(target), { recursive: true })
    writeFileSync(target, isMap ? withSources(file, place) : withPlaces(withoutIdleRequire(file.text), place))
  }
  const modules = [program, pretty].flatMap(({ metafile }) => usedInputs(metafile))
  checkPlaces(modules)
  checkDynamicImports(program.metafile)
  return { assets: [...assets], modules }
}

/** The program, and each file that another one starts as a thread or a process: see src/platform/threads.ts. */
function entryPoints() {
  const entries = [path.join(src, 'apps', 'cli', 'main.ts')]
  for (const file of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
    const source = path.join(src, file)
    if (!/\.tsx?$/.test(file) || file.startsWith('apps/dashboard')) continue
    const text = readFileSync(source, 'utf8')
    for (const [, entry] of text.matchAll(/\bthreadEntry\(import\.meta\.url, '([^']+)'\)/g))
      entries.push(path.join(path.dirname(source), `${entry}.ts`))
  }
  return entries
}

/** In which file a module ends up is known only when all are bundled: until then its place is a word in its text. */
function keepPlaces(build, assets) {
  build.onLoad({ filter: /\/src\/.*\.tsx?$/ }, ({ path: file }) => {
    const text = readFileSync(file, 'utf8')
    if (!text.includes('import.meta.url')) return undefined
    const name = path.relative(src, file).replace(/\.tsx?$/, '.js')
    for (const asset of assetsOf(text, name)) assets.add(asset)
    const contents = text
      .replaceAll("(import.meta.url)('pino-pretty')", "(import.meta.url)('../pino-pretty.cjs')")
      .replaceAll('import.meta.url', `placeOf__(${JSON.stringify(name)})`)
    return { contents, loader: file.endsWith('x') ? 'tsx' : 'ts' }
  })
}

/** The module of a CommonJS package from `import()` would have nothing but a default export. */
function keepNamesOfPackages(build) {
  build.onResolve({ filter: /^[^./]/ }, ({ kind, importer, path: name }) => {
    const isOurs = kind === 'dynamic-import' && importer.startsWith(src) && !name.startsWith('node:')
    // By its ending: with Node's rules for what the default of a CommonJS module is.
    return isOurs ? { path: `${name}.mjs`, namespace: 'names' } : undefined
  })
  build.onLoad({ filter: /./, namespace: 'names' }, async ({ path: file }) => {
    const name = file.slice(0, -'.mjs'.length)
    return { contents: exportsOf(name, await import(name)), resolveDir: root }
  })
}

/** Its WebAssembly, which it reads from beside itself, goes into the text of the chunk. */
function keepZstd(build) {
  build.onLoad({ filter: /\/@bokuweb\/zstd-wasm\/dist\/common\/index\.node\.js$/ }, ({ path: file }) => {
    const text = readFileSync(file, 'utf8')
    const contents = text.replace("readFile(resolve(__dirname, './zstd.wasm'))", "require('./zstd.wasm')")
    if (contents === text) throw new Error('@bokuweb/zstd-wasm reads its WebAssembly in another way')
    return { contents, loader: 'js' }
  })
  build.onLoad({ filter: /\/zstd\.wasm$/ }, ({ path: file }) => ({
    contents: readFileSync(file),
    loader: 'binary',
  }))
}

/** Ink connects to React's developer tools when the environment has DEV=true, over packages that nothing else needs. */
function leaveOutDevtools(build) {
  build.onResolve({ filter: /^\.\/devtools\.js$/ }, ({ importer }) =>
    importer.includes('/node_modules/ink/') ? { path: './devtools.js', external: true } : undefined,
  )
}

/** The files that a module finds next to itself: texts that are relative names, and neither imports nor sources. */
function assetsOf(text, name) {
  return [...text.matchAll(/(\bfrom |\bimport\()?'(\.\.?\/[^'\n]+)'/g)]
    .filter(([, isImport, wanted]) => isImport === undefined && !/\.tsx?$/.test(wanted))
    .map(([, , wanted]) => path.join('dist', path.dirname(name), wanted))
    .filter((asset) => !/^dist\/[\w/-]+-(thread|process)$/.test(asset))
    .map((asset) => {
      if (existsSync(path.join(root, asset))) return asset
      throw new Error(`${name} asks for ${asset}, which is not there: run npm run build`)
    })
}

/** Each `makeRequire` takes 0.1 ms of CPU, in every thread, and most chunks call none. Lines stay: the source maps are made. */
function withoutIdleRequire(text) {
  const rest = text.slice(requireLines.length)
  return text.startsWith(requireLines) && !/\brequire\b/.test(rest) ? `\n${rest}` : text
}

/** Lines stay as they are: the source maps are made. */
function withPlaces(text, place) {
  const up = path.relative(path.dirname(place), 'dist') || '.'
  return text.replaceAll(/placeOf__\((\s*)"([^"]+)"\s*\)/g, (_, space, name) => {
    return `new URL("${up}/${name}",${space}import.meta.url).href`
  })
}

/** As if the root were where the package is installed. */
function withSources({ path: file, text }, place) {
  const map = JSON.parse(text)
  const below = (source) => path.relative(root, path.resolve(path.dirname(file), source))
  // A module that was made here has a name and no place; esbuild puts it beside the output.
  const named = (source) => /names:.*$/.exec(source)?.[0]
  map.sources = map.sources.map(
    (source) => named(source) ?? path.relative(path.dirname(place), below(source)),
  )
  return JSON.stringify(map)
}

/** Those of which something is in an output. */
function usedInputs({ outputs }) {
  return Object.values(outputs).flatMap(({ inputs }) =>
    Object.keys(inputs).filter((name) => inputs[name].bytesInOutput > 0),
  )
}

/** Packages that look for files beside their own do not find them. Throws, unless it is known what these do. */
function checkPlaces(modules) {
  for (const name of modules.filter((one) => one.startsWith('node_modules/'))) {
    const code = readFileSync(path.join(root, name), 'utf8').replaceAll(/^\s*(\*|\/\/).*$/gm, '')
    if (!/\b__(dirname|filename)\b|import\.meta\.(url|dirname|filename)/.test(code)) continue
    if (placeless.includes(name.slice('node_modules/'.length))) continue
    throw new Error(
      `${name} asks for its own place: see to it that it works bundled, then add it to the list`,
    )
  }
}

/** The same between packages. Throws, since nobody noticed before the code is needed. */
function checkDynamicImports({ inputs }) {
  for (const [name, { imports }] of Object.entries(inputs)) {
    const nameless = imports.find(
      (one) => one.kind === 'dynamic-import' && inputs[one.path]?.format === 'cjs',
    )
    if (nameless !== undefined)
      throw new Error(`${name} would get no names of ${nameless.path}, which is CommonJS`)
  }
}
