/* Wide characters on C streams (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <locale.h>
#include <stdint.h>
#include <wchar.h>

#define WORDS L"gr\u00fc\u00df \u20ac \U0001f600"

/* Prints characters by their numbers. */
static void tell_text(const wchar_t *text)
{
	char line[1024] = "";
	int length = 0;
	for (; *text && length < 1000; text++)
		length += sprintf(line + length, " %x", (unsigned)*text);
	tell(" text%s", line);
}

static void files(void)
{
	wchar_t line[32];
	setlocale(LC_ALL, "C.UTF-8");
	FILE *file = fopen("f", "w+");
	T(fwide(file, 0));
	T(fputwc(L'\u00e4', file) == 0xe4);
	T(fwide(file, 0));
	T(fwide(file, -1));
	T(fputws(WORDS L"\n", file));
	T(fputws(L"", file));
	T(putwc_unlocked(L'x', file));
	T(fwprintf(file, L"%d %ls %s %.3f %c|\n", 42, L"\u20ac", "narrow", 1.5, 'c'));
	T(fwprintf(file, L"%d%d%d%d%d%d%d%d%d %f%f%f%f%f%f%f%f%f\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, .1, .2, .3, .4, .5, .6, .7, .8, .9));
	T(fflush(file));
	T(ftell(file));
	T(fseek(file, 0, SEEK_SET));
	T(fgetwc(file));
	T(ungetwc(L'\u20ac', file));
	T(getwc(file));
	T(ungetwc(WEOF, file) == WEOF);
	T(fgetws(line, 4, file) == line);
	tell_text(line);
	T(fgetws(line, 1, file) == line);
	tell_text(line);
	E(fgetws(line, 0, file) == NULL);
	while (fgetws(line, 32, file))
		tell_text(line);
	T(feof(file) != 0);
	T(ferror(file) != 0);
	E(getwc(file) == WEOF);
	T(fclose(file));
	tell_file("f");
	file = fopen("f", "a");
	for (int i = 0; i < 3000; i++)
		fputws(L"\u20ac and more ", file);
	T(fclose(file));
	file = fopen("f", "r");
	unsigned long sum = 0, count = 0;
	for (wint_t wide; (wide = fgetwc_unlocked(file)) != WEOF; count++)
		sum = sum * 31 + wide;
	T(sum);
	T(count);
	T(fclose(file));
	file = fopen("f", "r");
	E(fputws(L"refused", file) == -1);
	T(fclose(file));
}

static void errors(void)
{
	wchar_t line[32] = L"before";
	setlocale(LC_ALL, "C.UTF-8");
	put("bad", "ab\xff" "cd");
	FILE *file = fopen("bad", "r");
	T(getwc(file));
	T(getwc(file));
	E(getwc(file) == WEOF);
	T(ferror(file) != 0);
	T(feof(file) != 0);
	T(fclose(file));
	file = fopen("bad", "r");
	E(fgetws(line, 32, file) == NULL);
	T(fclose(file));
	put("cut", "a\xe2\x82");
	file = fopen("cut", "r");
	T(getwc(file));
	T(getwc(file) == WEOF);
	T(fclose(file));
	file = fopen("out", "w");
	E(fputwc(0x7fffffff, file) == WEOF);
	T(ferror(file) != 0);
	T(fclose(file));
	setlocale(LC_ALL, "C");
	file = fopen("out", "w");
	T(fputws(L"plain", file));
	T(fputws(L"not in ASCII: \u20ac \u4e2d \u201cquoted\u201d", file));
	T(fwprintf(file, L"%lc", L'\u4e2d'));
	T(ferror(file) != 0);
	T(fclose(file));
	tell_file("out");
}

/* stdin and stdout, replaced by files. */
static void standard(void)
{
	wchar_t line[32];
	setlocale(LC_ALL, "C.UTF-8");
	put("in", "\xc3\xa4\xe2\x82\xac" "bc\nsecond\n");
	dup2(open("in", O_RDONLY), 0);
	dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
	T(getwchar());
	T(getwchar_unlocked());
	T(ungetwc(L'z', stdin));
	T(fgetws(line, 32, stdin) == line);
	tell_text(line);
	T(putwchar(L'\u00e4') == 0xe4);
	T(putwchar_unlocked(L'b'));
	T(wprintf(L" %d %ls %f %s\n", 7, L"\u20ac", 2.5, "narrow"));
	T(fputws(WORDS L"\n", stdout));
	T(fwide(stdout, 0));
	T(fflush(stdout));
	tell_file("out");
	fputws(L"at exit", stdout);
	pid_t pid = fork();
	if (pid == 0)
		exit(0);
	waitpid(pid, NULL, 0);
	tell_file("out");
	T(fclose(stdout));
	tell_file("out");
}

int main(int count, char **arguments)
{
	static const struct section sections[] = {{"files", files}, {"errors", errors}, {"standard", standard}};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
