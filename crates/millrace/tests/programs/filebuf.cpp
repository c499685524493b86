// C++ streams. The output must be the same in a local folder and in a folder of a mount. Argument:
// the folder.
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <unistd.h>

static void tell_file(const char *name)
{
	std::ifstream in(name);
	std::stringstream all;
	all << in.rdbuf();
	std::cerr << name << " holds " << all.str().size() << ": " << all.str() << "\n";
}

int main(int count, char **arguments)
{
	if (count != 2 || chdir(arguments[1]) != 0)
		return 2;
	using std::ios;
	const ios::openmode modes[] = {ios::out, ios::app, ios::out | ios::app, ios::in | ios::app, ios::in | ios::out,
				       ios::in | ios::out | ios::trunc, ios::out | ios::ate, ios::in | ios::ate, ios::in};
	for (ios::openmode mode : modes) {
		std::ofstream("f") << "0123456789";
		std::fstream file("f", mode);
		std::cerr << "mode " << mode << " open " << file.is_open() << " tellg " << file.tellg() << " tellp " << file.tellp() << "\n";
		std::string word;
		file >> word;
		std::cerr << " read " << word << " state " << file.rdstate() << "\n";
		file.clear();
		file.seekp(3);
		file << "ab";
		std::cerr << " tellp " << file.tellp() << " state " << file.rdstate() << "\n";
		file.clear();
		file.seekg(-2, ios::end);
		std::cerr << " get " << file.get() << " peek " << file.peek() << " tellg " << file.tellg() << "\n";
		file.clear();
		file.close();
		std::cerr << " state " << file.rdstate() << "\n";
		tell_file("f");
	}
	std::wofstream wide("wide");
	wide << L"wide " << 42 << std::endl;
	std::cerr << "wide " << wide.good() << "\n";
	tell_file("wide");
	std::ofstream none("none/x");
	std::cerr << "none " << none.is_open() << "\n";
	std::ofstream big("big");
	for (int i = 0; i < 100000; i++)
		big << i << '\n';
	std::cerr << "big " << big.tellp() << "\n";
	big.close();
	std::ifstream in("big");
	long sum = 0;
	for (long i; in >> i;)
		sum += i;
	std::cerr << "sum " << sum << "\n";
	// std::cout and std::cin keep libc's streams.
	if (!freopen("redirected", "w", stdout))
		return 3;
	std::cout << "by cout" << std::endl;
	int fd = open("redirected", O_WRONLY | O_APPEND);
	dup2(fd, 1);
	std::cout << "by dup2\n" << std::flush;
	puts("by stdio");
	std::cerr << "flushed " << std::cout.flush().good() << "\n";
	tell_file("redirected");
	if (!freopen("f", "r", stdin))
		return 4;
	std::string word;
	std::cerr << "get " << std::cin.get() << "\n";
	std::cin.unget();
	std::cin >> word;
	std::cerr << "word " << word << " state " << std::cin.rdstate() << "\n";
	std::ios::sync_with_stdio(false);
	if (!freopen("unsynchronized", "w", stdout))
		return 5;
	std::cout << "without stdio\n" << std::flush;
	std::cerr << "state " << std::cout.rdstate() << "\n";
	tell_file("unsynchronized");
	return 0;
}
