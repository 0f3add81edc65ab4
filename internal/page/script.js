// What pages do beyond links and forms: they follow a run, load chunks, sort and filter
// tables, and take keys. Everything works without this script. No node is made from a
// string: documents come parsed from XMLHttpRequest, of this origin only.

const mostItems = 3000
const refreshEvery = 250 // milliseconds
const body = document.body
const main = document.querySelector('main')
const inFile = body.hasAttribute('data-file')
const all = (selector, root = document) => [...root.querySelectorAll(selector)]

// element returns a new element with attributes and children; strings become text.
function element(name, attributes = {}, ...children) {
  const e = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value)
  e.append(...children)
  return e
}

// load asks for a page of this origin, and resolves to its document, which may say why there
// is no page any more.
function load(path) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('GET', new URL(path, location.href))
    request.responseType = 'document'
    request.onload = () => request.response?.querySelector('main, .chunk') ? resolve(request.response) : reject(new Error(`status ${request.status}`))
    request.onerror = () => reject(new Error('no connection'))
    request.send()
  })
}

function say(text) {
  const live = document.getElementById('live')
  if (live && live.textContent !== text) live.textContent = text
}

// ---- Live: the page is asked for again when the server says that it has changed.

// keyOf returns what a node is matched by among its siblings: a row by its first cell.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return `${node.nodeType}`
  return `${node.tagName}#${node.id || node.dataset?.name || node.cells?.[0]?.textContent || ''}`
}

// morph makes one node like another and keeps what has not changed: focus, selection,
// scroll, what is open, and what a reader has entered.
function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue
    return
  }
  if (from.isEqualNode(to)) return
  const kept = name => name === 'open' && from.tagName === 'DETAILS' || name === 'tabindex' || name === 'hidden' && from.hasAttribute('data-filters')
  for (const a of [...from.attributes]) if (!to.hasAttribute(a.name) && !kept(a.name)) from.removeAttribute(a.name)
  for (const a of to.attributes) if (from.getAttribute(a.name) !== a.value && !kept(a.name)) from.setAttribute(a.name, a.value)
  if (['SELECT', 'INPUT', 'THEAD'].includes(from.tagName) || from.id === 'items') return
  const waiting = new Map()
  for (const child of from.childNodes) {
    const key = keyOf(child)
    waiting.has(key) ? waiting.get(key).push(child) : waiting.set(key, [child])
  }
  let at = from.firstChild
  for (const wanted of [...to.childNodes]) {
    const old = waiting.get(keyOf(wanted))?.shift()
    if (!old) {
      from.insertBefore(document.importNode(wanted, true), at)
      continue
    }
    if (old === at) at = at.nextSibling
    else from.insertBefore(old, at)
    morph(old, wanted)
  }
  for (const rest of waiting.values()) for (const node of rest) node.remove()
}

let due = 0
let timer = 0
let loading = false
let stale = false

function refreshSoon() {
  stale = true
  if (loading || timer || document.hidden) return
  timer = setTimeout(refresh, Math.max(0, due - Date.now()))
}

async function refresh() {
  timer = 0
  loading = true
  stale = false
  due = Date.now() + refreshEvery
  try {
    const items = document.getElementById('items')
    const next = await load(items ? pathOfItems() : location.href)
    const anchor = scrollAnchor()
    const focused = document.activeElement
    const fresh = next.querySelector('main')
    if (fresh) {
      if (items) refreshItems(items, fresh.querySelector('#items'))
      morph(main, fresh)
      document.title = next.title
      prepare()
      if (focused?.isConnected) focused.focus({ preventScroll: true })
      anchor()
    }
    say(body.dataset.live ? 'live' : '')
  } catch (e) {
    say(`not updated: ${e.message}`)
  }
  loading = false
  if (stale) refreshSoon()
}

// scrollAnchor remembers what is at the top of the window, and returns what puts it back.
function scrollAnchor() {
  const seen = scrollY > 0 && all('.item, tbody tr, section', main).find(e => e.getBoundingClientRect().bottom > 60)
  const top = seen ? seen.getBoundingClientRect().top : 0
  return () => {
    if (seen && seen.isConnected) scrollBy({ top: seen.getBoundingClientRect().top - top, behavior: 'instant' })
  }
}

// pathOfItems is the page with the last chunk that is shown, which alone can grow.
function pathOfItems() {
  const url = new URL(location.href)
  const chunk = all('#items > .chunk').at(-1)
  if (chunk) {
    url.searchParams.delete('line')
    url.searchParams.set('from', chunk.dataset.from)
    const attempt = document.querySelector('form.filter input[name=attempt]')?.value
    if (attempt > 0) url.searchParams.set('attempt', attempt)
  }
  return url.href
}

function refreshItems(items, fresh) {
  const last = all(':scope > .chunk', items).at(-1)
  const grown = fresh?.querySelector('.chunk')
  if (!last || !grown) {
    if (fresh) items.replaceChildren(...[...fresh.childNodes].map(n => document.importNode(n, true)))
    return
  }
  if (last.dataset.from !== grown.dataset.from) { // another chunk came since this one was asked for
    stale = true
    return
  }
  morph(last, grown)
  if (last.previousElementSibling) edge(last, 'prev', true)
}

function follow() {
  const path = body.dataset.live
  if (!path) return
  const source = new EventSource(new URL(path, location.href))
  source.onopen = () => say('live')
  source.onmessage = refreshSoon
  source.addEventListener('end', () => {
    source.close()
    refreshSoon()
    delete body.dataset.live
  })
  source.onerror = () => say(source.readyState === EventSource.CLOSED ? 'not followed' : 'waiting for the server')
  document.addEventListener('visibilitychange', () => stale && refreshSoon())
}

// ---- Chunks of a transcript.

// edge hides or shows the link at an end of a chunk, beyond which another chunk is shown.
function edge(chunk, rel, hidden) {
  const p = chunk.querySelector(`:scope > .load > a[rel=${rel}]`)?.parentElement
  if (p) p.hidden = hidden
}

let asked = false

async function loadChunk(link) {
  if (asked) return
  asked = true
  link.setAttribute('aria-busy', 'true')
  const chunk = link.closest('.chunk')
  const items = chunk.parentElement
  const down = link.rel === 'next'
  try {
    const found = (await load(link.dataset.chunk)).querySelector('.chunk')
    if (!found) throw new Error('no events in the reply')
    const added = document.importNode(found, true)
    const anchor = scrollAnchor()
    if (down) chunk.after(added)
    else chunk.before(added)
    edge(chunk, down ? 'next' : 'prev', true)
    edge(added, down ? 'prev' : 'next', true)
    dropFar(items, down)
    anchor()
    watchEnd()
  } catch (e) {
    say(`not loaded: ${e.message}`)
  }
  link.removeAttribute('aria-busy')
  asked = false
}

// dropFar removes chunks from the other end until at most mostItems items are shown.
function dropFar(items, down) {
  while (items.childElementCount > 1 && items.querySelectorAll('.item, .under').length > mostItems) {
    if (down) {
      items.firstElementChild.remove()
      edge(items.firstElementChild, 'prev', false)
    } else {
      items.lastElementChild.remove()
      edge(items.lastElementChild, 'next', false)
    }
  }
}

const ends = new IntersectionObserver(seen => {
  for (const s of seen) if (s.isIntersecting && !s.target.parentElement.hidden) loadChunk(s.target)
}, { rootMargin: '0px 0px 600px 0px' })

function watchEnd() {
  ends.disconnect()
  const link = all('#items a[rel=next]').filter(a => !a.parentElement.hidden).at(-1)
  if (link) ends.observe(link)
}

document.addEventListener('click', event => {
  const link = event.target.closest?.('a')
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  if (link.dataset.chunk) {
    event.preventDefault()
    loadChunk(link)
  } else if (link.classList.contains('permalink') && document.getElementById(link.hash.slice(1))) {
    event.preventDefault()
    history.replaceState(null, '', link.href)
    showTarget()
  }
})

// showTarget shows the event that the address names: it opens what hides it, and asks for
// the page that has it where this one has not.
function showTarget() {
  const found = /^#e([1-9][0-9]{0,15})$/.exec(location.hash)
  if (!found) return
  const target = document.getElementById(found[0].slice(1))
  if (target) {
    for (let e = target; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true
    target.closest('.item, .raw-line')?.focus({ preventScroll: true })
    target.scrollIntoView({ block: 'start' })
    return
  }
  const url = new URL(location.href)
  if (inFile || !document.getElementById('items') || url.searchParams.get('line') === found[1]) return
  for (const name of ['from', 'kind', 'tool', 'bad', 'text']) url.searchParams.delete(name)
  url.searchParams.set('line', found[1])
  location.replace(url)
}

// ---- Tables: sorted by their headers, filtered where the server does not.

function sortKey(cell) {
  const text = cell.dataset.n ?? cell.textContent.trim()
  const n = Number.parseFloat(text.replace(/[$,%]/g, ''))
  return { text, n: /^[-$]?[\d,.]+/.test(text) && !Number.isNaN(n) ? n : null }
}

function sortTable(table) {
  const head = table.querySelector('th[aria-sort]')
  if (!head) return
  const sign = head.getAttribute('aria-sort') === 'ascending' ? 1 : -1
  const rows = [...table.tBodies[0].rows].map(row => ({ row, key: sortKey(row.cells[head.cellIndex]) }))
  const order = new Intl.Collator('en', { numeric: true }).compare
  const compare = (a, b) => a.n !== null && b.n !== null ? a.n - b.n : a.n !== null ? 1 : b.n !== null ? -1 : order(a.text, b.text)
  const sorted = rows.toSorted((a, b) => sign * compare(a.key, b.key))
  if (sorted.some((r, i) => r !== rows[i])) table.tBodies[0].append(...sorted.map(r => r.row))
}

function makeSortable(table) {
  for (const head of table.tHead.rows[0].cells) {
    if (head.querySelector('button, .sr')) continue
    const button = element('button', { type: 'button' }, ...head.childNodes)
    head.append(button)
    button.addEventListener('click', () => {
      const ascending = head.getAttribute('aria-sort') === 'ascending' || !head.hasAttribute('aria-sort') && head.classList.contains('n')
      for (const other of table.querySelectorAll('th[aria-sort]')) other.removeAttribute('aria-sort')
      head.setAttribute('aria-sort', ascending ? 'descending' : 'ascending')
      sortTable(table)
    })
  }
}

// columns of the table of tasks that the fields of its filter are about, by their headers.
const columns = { outcome: 'Outcome', level: 'Level', tool: 'Tools', check: 'Findings' }

function filterTable(form) {
  const table = document.getElementById(form.dataset.filters)
  if (!table) return
  const heads = [...table.tHead.rows[0].cells].map(c => c.textContent.trim())
  const wanted = [...new FormData(form)].filter(([, value]) => value !== '')
  let shown = 0
  for (const row of table.tBodies[0].rows) {
    row.hidden = !wanted.every(([name, value]) => {
      if (name === 'text') return row.textContent.toLowerCase().includes(value.toLowerCase())
      const text = row.cells[heads.indexOf(columns[name])]?.textContent ?? ''
      if (name === 'outcome') return text.replace(/^\S+\s+/, '') === value
      return text.split(/[\s,]+/).includes(value)
    })
    if (!row.hidden) shown++
  }
  const count = table.closest('section')?.querySelector('.count')
  if (count) count.textContent = `${shown} of ${table.tBodies[0].rows.length} tasks`
}

// ---- Saving plots where the page has no links for it.

function save(name, type, parts) {
  const url = URL.createObjectURL(new Blob(parts, { type }))
  const a = element('a', { href: url, download: name })
  a.click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}

function csvOf(table) {
  const cell = c => /[",\n\r]/.test(c.textContent) ? `"${c.textContent.replaceAll('"', '""')}"` : c.textContent
  return [...table.rows].map(row => [...row.cells].map(cell).join(',') + '\n')
}

function offerSaving(figure) {
  if (figure.querySelector('.save')) return
  const name = figure.dataset.name || 'plot'
  const p = element('p', { class: 'save' }, 'Save')
  const offer = (text, act) => {
    const button = element('button', { type: 'button' }, text)
    button.addEventListener('click', act)
    p.append(' ', button)
  }
  const svg = figure.querySelector('.picture svg')
  const table = figure.querySelector('table')
  if (svg) offer('SVG', () => save(`${name}.svg`, 'image/svg+xml', [new XMLSerializer().serializeToString(svg)]))
  if (table) offer('CSV', () => save(`${name}.csv`, 'text/csv', csvOf(table)))
  if (svg || table) figure.append(p)
}

// ---- Keys.

function stops() {
  return all('.item, .raw-line, .finding, table.rows tbody tr', main).filter(e => !e.hidden && e.getClientRects().length > 0)
}

function step(by) {
  const list = stops()
  if (!list.length) return
  const now = list.indexOf(document.activeElement?.closest('.item, .raw-line, .finding, table.rows tbody tr'))
  const at = now >= 0 ? now + by : by > 0 ? list.findIndex(e => e.getBoundingClientRect().top >= 0) : list.findLastIndex(e => e.getBoundingClientRect().top < innerHeight)
  const to = list[Math.min(list.length - 1, Math.max(0, at))]
  if (!to.hasAttribute('tabindex')) to.tabIndex = -1
  to.focus({ preventScroll: true })
  to.scrollIntoView({ block: 'nearest' })
  if (by > 0 && at >= list.length - 1) all('#items a[rel=next]').filter(a => !a.parentElement.hidden).slice(-1).forEach(loadChunk)
}

// openThis opens what has the focus: the link of a row, or the folded texts of an item.
function openThis() {
  const here = document.activeElement
  if (!here || here.matches('a, button, summary, input, select, textarea')) return false
  const stop = here.closest('.item, .raw-line, .finding, tbody tr')
  if (!stop) return false
  if (stop.matches('tr')) {
    stop.querySelector('a[href]')?.click()
    return true
  }
  const folds = all('details', stop)
  const open = folds.some(d => !d.open)
  for (const d of folds) d.open = open
  return folds.length > 0
}

const keys = [['j', 'next event or row'], ['k', 'previous event or row'], ['Enter', 'open it: follow its link, unfold its texts'],
  ['/', 'go to the filter'], ['?', 'show the keys'], ['Esc', 'close this, leave the filter']]

const help = element('dialog', { 'aria-labelledby': 'help-h' }, element('h2', { id: 'help-h' }, 'Keys'),
  element('dl', {}, ...keys.flatMap(([key, what]) => [element('dt', {}, element('kbd', {}, key)), element('dd', {}, what)])),
  element('form', { method: 'dialog' }, element('button', {}, 'Close')))

function onKey(event) {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return
  const typing = event.target.closest?.('input, select, textarea, [contenteditable]')
  if (typing) {
    if (event.key === 'Escape') typing.blur()
    return
  }
  if (help.open) return
  const field = all('form.filter:not([hidden]) input[type=search]')[0]
  switch (event.key) {
    case 'j': step(1); break
    case 'k': step(-1); break
    case 'Enter': if (!openThis()) return; break
    case '/': if (!field) return; field.focus(); break
    case '?': help.showModal(); break
    default: return
  }
  event.preventDefault()
}

// prepare adds to the page what it can do only with this script. It runs again after an
// update, and adds nothing twice.
function prepare() {
  for (const table of all('table[data-sortable]')) {
    makeSortable(table)
    sortTable(table)
  }
  for (const form of all('form[data-filters]')) {
    if (form.hasAttribute('action') && !inFile) continue
    if (form.hidden) {
      form.hidden = false
      form.addEventListener('submit', event => event.preventDefault())
      form.addEventListener('input', () => filterTable(form))
    }
    filterTable(form)
  }
  all('figure.plot').forEach(offerSaving)
  watchEnd()
}

body.append(help)
const hint = element('button', { type: 'button' }, 'Keys: ?')
hint.addEventListener('click', () => help.showModal())
document.querySelector('footer')?.append(hint)
document.addEventListener('keydown', onKey)
addEventListener('hashchange', showTarget)
prepare()
showTarget()
follow()
