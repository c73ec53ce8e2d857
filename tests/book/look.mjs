// Opens all pages of the book in a browser: node look.mjs BOOK CHROMIUM. Fails if a text or an icon has less contrast than
// WCAG 2.2 requires at level AA, in the light or the dark theme, or if something does not fit on the page or is torn apart:
// on a wide screen, a narrow screen or a phone.
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const [book, executablePath] = process.argv.slice(2).map(path => resolve(path));
const pages = readdirSync(book, { recursive: true }).filter(file => file.endsWith('.html') && file !== 'toc.html');
// A page with search results, and a page that a search result leads to.
const visits = [...pages, 'index.html?search=worker+ID', 'index.html?highlight=server%20IDs'];
const found = new Map();

/** Runs in the page. Returns the texts and icons whose contrast is too low. */
function lowContrast() {
    const numbers = color => {
        const context = new OffscreenCanvas(1, 1).getContext('2d');
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
        return { rgb: [red, green, blue], alpha: alpha / 255 };
    };
    const known = new Map();
    const parse = color => known.get(color) ?? known.set(color, numbers(color)).get(color);
    const over = (top, alpha, below) => top.map((part, at) => part * alpha + below[at] * (1 - alpha));
    const behind = element => {
        if (!element) {
            return [255, 255, 255];
        }
        const { rgb, alpha } = parse(getComputedStyle(element).backgroundColor);
        return alpha === 1 ? rgb : over(rgb, alpha, behind(element.parentElement));
    };
    const luminance = rgb => rgb
        .map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const check = (element, least, pseudo) => {
        const style = getComputedStyle(element, pseudo);
        const below = behind(element);
        const { rgb, alpha } = parse(least === 3 && style.fill !== 'none' && element.tagName === 'svg' ? style.fill : style.color);
        let opacity = alpha;
        for (let outer = element; outer; outer = outer.parentElement) {
            opacity *= getComputedStyle(outer).opacity;
        }
        const [dark, light] = [luminance(over(rgb, opacity, below)), luminance(below)].sort((one, other) => one - other);
        const ratio = (light + 0.05) / (dark + 0.05);
        return ratio < least ? [{ ratio, what: `${rgb} on ${below.map(Math.round)}`, where: element.outerHTML.slice(0, 100).replaceAll('\n', '') }] : [];
    };
    const large = ({ fontSize, fontWeight }) => parseFloat(fontSize) >= (fontWeight >= 700 ? 18.66 : 24);
    const low = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (texts.currentNode.data.trim() && element.checkVisibility({ visibilityProperty: true })) {
            low.push(...check(element, large(getComputedStyle(element)) ? 3 : 4.5));
        }
    }
    for (const icon of document.querySelectorAll('svg')) {
        low.push(...icon.checkVisibility({ visibilityProperty: true }) ? check(icon, 3) : []);
    }
    for (const field of document.querySelectorAll('input[placeholder]')) {
        low.push(...field.checkVisibility() ? [...check(field, 4.5), ...check(field, 4.5, '::placeholder')] : []);
    }
    return low;
}

/**
 * Runs in the page. Returns what is wider than the space it has, unless it is meant to scroll. On a wide screen, no table
 * should need to be stacked.
 */
function tooWide() {
    const cut = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1;
    const parts = '.content, .table-wrapper:not(:has(table.narrow)), code.language-text:not(.in-columns)';
    const wide = [...document.querySelectorAll(parts)].filter(cut);
    const stacked = innerWidth < 1080 ? [] : document.querySelectorAll('table.stacked, table.narrow');
    return [...wide, ...stacked].map(element => element.outerHTML.slice(0, 100).replaceAll('\n', ''));
}

/**
 * Runs in the page. Returns what is torn apart: a table of numbers whose rows are blocks, output in columns that is
 * wrapped, and a list that code interrupts, so that its next step begins a new list.
 */
function torn() {
    const all = selector => [...document.querySelectorAll(selector)];
    const numbers = all('table').filter(table => {
        const row = [...table.querySelector('tbody').rows[0].cells].slice(1);
        return row.length > 1 && row.every(cell => /^[\d.,]+( x)?$/.test(cell.textContent.trim()));
    });
    const stacked = numbers.filter(table => getComputedStyle(table.querySelector('td')).display !== 'table-cell');
    const output = all('code.language-text').filter(code => /^[- ]?---[-+]*$/m.test(code.textContent));
    const wrapped = output.filter(code => getComputedStyle(code).whiteSpace !== 'pre');
    // The end of a here-document must be at the left edge, also for those who copy it from the Markdown file.
    const interrupted = all('pre + ol[start]').filter(list => !list.previousElementSibling.textContent.includes('<<'));
    return [...stacked, ...wrapped, ...interrupted].map(element => element.outerHTML.slice(0, 100).replaceAll('\n', ''));
}

const note = (what, where) => found.set(what, [...found.get(what) ?? [], where]);
const browser = await chromium.launch({ executablePath });
for (const javaScriptEnabled of [true, false]) {
    const page = await browser.newPage({ javaScriptEnabled });
    for (const visit of javaScriptEnabled ? visits : ['index.html', 'reference/settings.html', 'toc.html']) {
        for (const colorScheme of ['light', 'dark']) {
            await page.emulateMedia({ colorScheme });
            await page.goto(pathToFileURL(book) + '/' + visit);
            if (javaScriptEnabled) {
                await page.addStyleTag({ content: '* { transition: none !important; }' });
            }
            if (visit.includes('?search')) {
                await page.waitForSelector('#mdbook-searchresults li');
            }
            for (const width of [1400, 900, 390]) {
                await page.setViewportSize({ width, height: 1000 });
                if (javaScriptEnabled) {
                    // Two frames later, the page has adapted to its size.
                    await page.evaluate(async () => {
                        await document.fonts.ready;
                        await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
                    });
                    (await page.evaluate(tooWide)).forEach(where => note(`${width} px: too wide: ${where}`, visit));
                    (await page.evaluate(torn)).forEach(where => note(`${width} px: torn apart: ${where}`, visit));
                }
                for (const { ratio, what, where } of await page.evaluate(lowContrast)) {
                    note(`${colorScheme}: ${ratio.toFixed(2)}:1, ${what}`, `${visit}: ${where}`);
                }
            }
        }
    }
}
await browser.close();
for (const [what, [first, ...others]] of found) {
    console.log(`${what}\n    ${first}${others.length ? `, and ${others.length} more` : ''}`);
}
console.log(`${visits.length} pages checked`);
process.exitCode = found.size ? 1 : 0;
