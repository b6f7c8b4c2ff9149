/**
 * The text of a module that exports what the package `name` does, `module` being what `import(name)` gives. A CommonJS module
 * has no names to export: those that Node finds in it are said one by one.
 */
export function exportsOf(name, module) {
  const hasDefault = 'default' in module
  const names = Object.keys(module).filter((key) => key !== 'default' && key !== 'module.exports')
  const isCommonJs = hasDefault && names.every((key) => module.default[key] === module[key])
  if (!isCommonJs)
    return `export * from '${name}'\n${hasDefault ? `export { default } from '${name}'\n` : ''}`
  return `import whole from '${name}'\nexport const { ${names.join(', ')} } = whole\nexport default whole\n`
}
