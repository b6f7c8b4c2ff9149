/** `--import` of a child: writes the address of every module that it or its threads load to the file PIPECTL_TEST_LOADED names. */
import { register } from 'node:module'

const hooks = `
import { appendFileSync } from 'node:fs'
export async function load(url, context, nextLoad) {
  appendFileSync(${JSON.stringify(process.env.PIPECTL_TEST_LOADED)}, url + '\\n')
  return nextLoad(url, context)
}`
register(`data:text/javascript,${encodeURIComponent(hooks)}`)
