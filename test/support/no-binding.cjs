/** For --require: as on a C library that no binding was built for. */
const dlopen = process.dlopen
process.dlopen = (module, file, ...rest) => {
  if (/\/uws_[^/]*\.node$/.test(file)) throw new Error(`${file}: version GLIBC_9.99 not found`)
  return dlopen(module, file, ...rest)
}
